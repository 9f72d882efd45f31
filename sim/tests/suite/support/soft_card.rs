//! Models the card in software: the behaviour of the gateware without its clock domains and
//! pipelines. The model implements the sending side of the format, so that the simulator's
//! receiving side can be checked without the gateware.

use std::collections::VecDeque;

use hmtt_format::address_map::Axis;
use hmtt_format::block::unit_log2;
use hmtt_format::command::mirror;
use hmtt_format::config::{Granularity, Mode, slice_clocks};
use hmtt_format::frame::{self, END_REPEATS, FrameKind, PayloadHeader, Sync};
use hmtt_format::info::{Report, StaticWords};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{Half, MAX_DELTA, MAX_SKIP, NUMBER_BITS, PageRun, WordRecord};
use hmtt_format::{
    Command, CommandKind, Coordinates, Direction, FORMAT_VERSION, FaultKind, MemoryDescription,
    Pins,
};

/// Words of records in a frame. Frames are sent when they are full and at the end.
const FRAME_WORDS: usize = 100;
/// Gap between frames in byte times.
const GAP: usize = 12;

struct Line {
    clock: u64,
    line: u64,
    write: bool,
    seen: u64,
}

struct Page {
    clock: u64,
    last: u64,
    page: u64,
    reads: u32,
    writes: u32,
}

/// The software card.
pub struct SoftCard {
    memory: MemoryDescription,
    clock: u64,
    cke: Option<u8>,
    rows: Vec<Option<u32>>,
    refreshed: [Option<u64>; 4],
    ran: bool,
    mode: Mode,
    granularity: Granularity,
    frequency: bool,
    slice_code: u8,
    line: Option<Line>,
    page: Option<Page>,
    slice: (u64, u32, u32),
    sync: Sync,
    now: u64,
    segment: u32,
    words: Vec<u64>,
    half: Option<u32>,
    block_accesses: u64,
    counter: u64,
    counts: (u64, u64, u32),
    wire: VecDeque<Option<u8>>,
}

impl SoftCard {
    pub fn new(memory: MemoryDescription) -> Self {
        SoftCard {
            rows: vec![None; 64],
            memory,
            clock: 0,
            cke: None,
            refreshed: [None; 4],
            ran: false,
            mode: Mode::Line,
            granularity: Granularity::Line,
            frequency: false,
            slice_code: 0,
            line: None,
            page: None,
            slice: (0, 0, 0),
            sync: Sync::default(),
            now: 0,
            segment: 0,
            words: Vec::new(),
            half: None,
            block_accesses: 0,
            counter: 0,
            counts: (0, 0, 0),
            wire: VecDeque::new(),
        }
    }

    /// Applies one DDR clock. `straps`: mode, burst, frequency and slice code from bit 0, 2, 3 and
    /// 4 on.
    pub fn ddr(&mut self, pins: Pins, run: bool, straps: u16) {
        if run && !self.ran {
            self.mode = Mode::from_code((straps & 3) as u8).expect("a mode");
            self.granularity =
                if straps >> 2 & 1 != 0 { Granularity::Burst } else { Granularity::Line };
            self.frequency = straps >> 3 & 1 != 0 || self.mode == Mode::Frequency;
            self.slice_code = (straps >> 4 & 31) as u8;
            self.open_block();
            self.report(FrameKind::Info);
        }
        if !run && self.ran {
            self.stop();
        }
        self.ran = run;
        let before = self.cke.replace(pins.cke).unwrap_or(pins.cke);
        for rank in (0..self.memory.ranks()).filter(|_| run) {
            let awake = before >> rank & 1 != 0;
            let mut straight = pins;
            if self.memory.mirror_odd_ranks && rank & 1 != 0 {
                let bank_bits = self.memory.bits(Axis::Bank);
                (straight.ba, straight.a) =
                    mirror(self.memory.generation, bank_bits, pins.ba, pins.a);
            }
            let command = Command::decode_rank(self.memory.generation, straight, rank, awake);
            self.command(rank, command);
        }
        self.clock += 1;
    }

    /// Applies one TX edge and returns data and enable.
    pub fn tx(&mut self) -> (u8, bool) {
        let byte = self.wire.pop_front().flatten();
        (byte.unwrap_or(0), byte.is_some())
    }

    /// Executes a command. Of the faults only those of the recorded vectors are modelled; their
    /// commands go to one rank.
    fn command(&mut self, rank: u8, command: Command) {
        use CommandKind::*;
        if matches!(command.kind, Deselect | Nop) {
            return;
        }
        let number = rank << 4 | command.ba;
        let bank = usize::from(number);
        let banks = usize::from(rank) * 16..usize::from(rank) * 16 + 16;
        let any_open = self.rows[banks.clone()].iter().any(Option::is_some);
        let refreshed = self.refreshed[usize::from(rank)];
        let early =
            refreshed.is_some_and(|at| self.clock - at < u64::from(self.memory.trfc_clocks));
        if early && matches!(command.kind, Activate) {
            self.fault(FaultKind::CommandInRfc, number);
            return;
        }
        match command.kind {
            Activate if self.rows[bank].is_some() => {
                self.fault(FaultKind::ActivateOpen, number);
            }
            Activate => self.rows[bank] = Some(command.a),
            Precharge => self.rows[bank] = None,
            PrechargeAll => self.rows[banks].fill(None),
            Refresh | SelfRefreshEntry if any_open => self.fault(FaultKind::RefreshOpen, rank << 4),
            Refresh => self.refreshed[usize::from(rank)] = Some(self.clock),
            Read | Write => self.column(rank, command),
            _ => {}
        }
    }

    fn column(&mut self, rank: u8, command: Command) {
        let write = command.kind == CommandKind::Write;
        let bank = usize::from(rank << 4 | command.ba);
        let Some(row) = self.rows[bank] else {
            let kind = if write { FaultKind::WriteIdle } else { FaultKind::ReadIdle };
            return self.fault(kind, rank << 4 | command.ba);
        };
        if command.auto_precharge() {
            self.rows[bank] = None;
        }
        let row_mask = (1u32 << self.memory.bits(Axis::Row)) - 1;
        let place = Coordinates {
            rank: rank.into(),
            bank: command.ba.into(),
            row: row & row_mask,
            column: command.column(self.memory.generation, self.memory.bits(Axis::Column)),
        };
        let address = self.memory.map.to_address(place);
        if write {
            self.counts.1 += 1
        } else {
            self.counts.0 += 1
        }
        self.count(write);
        match (self.mode, self.granularity) {
            (Mode::Line, Granularity::Line) => self.line_access(address, write),
            (Mode::Line, Granularity::Burst) => {
                self.access(address >> self.memory.burst_log2(), write);
            }
            (Mode::Page, _) => self.page_access(address >> PAGE_LOG2, write),
            (Mode::Frequency | Mode::Analysis, _) => {}
        }
    }

    fn line_access(&mut self, address: u64, write: bool) {
        let line = address >> self.memory.line_log2;
        let burst =
            1u64 << ((address & ((1 << self.memory.line_log2) - 1)) >> self.memory.burst_log2());
        if let Some(open) = &mut self.line
            && (open.line, open.write) == (line, write)
            && open.seen & burst == 0
            && self.clock <= open.clock + u64::from(self.memory.merge_window)
        {
            open.seen |= burst;
            return;
        }
        self.line = Some(Line { clock: self.clock, line, write, seen: burst });
        self.access(line, write);
    }

    fn page_access(&mut self, page: u64, write: bool) {
        if self.page.as_ref().is_none_or(|open| open.page != page) {
            self.end_run();
            let clock = self.clock;
            self.page = Some(Page { clock, last: clock, page, reads: 0, writes: 0 });
        }
        if let Some(open) = &mut self.page {
            open.last = self.clock;
            if write { open.writes += 1 } else { open.reads += 1 }
        }
    }

    fn end_run(&mut self) {
        let Some(open) = self.page.take() else { return };
        self.pass(open.clock, u64::from(hmtt_format::record::MAX_PAGE_DELTA));
        self.select(open.page);
        let run = PageRun {
            number: (open.page & ((1 << NUMBER_BITS) - 1)) as u32,
            reads: open.reads,
            writes: open.writes,
            duration: (open.last - open.clock) as u32,
        };
        let delta = (open.clock - self.now) as u32;
        self.now = open.clock;
        self.block_accesses += u64::from(open.reads + open.writes);
        self.word(WordRecord::Page { delta, run });
    }

    fn count(&mut self, write: bool) {
        let length = u64::from(slice_clocks(self.slice_code, self.memory.tck_ps));
        let start = self.clock / length * length;
        if start != self.slice.0 {
            self.end_slice(None);
            self.slice = (start, 0, 0);
        }
        if write { self.slice.2 += 1 } else { self.slice.1 += 1 }
    }

    fn end_slice(&mut self, partial: Option<u32>) {
        let (start, reads, writes) = self.slice;
        if !self.frequency || reads + writes == 0 {
            return;
        }
        if self.mode == Mode::Frequency {
            self.block_accesses += u64::from(reads + writes);
        }
        self.word(WordRecord::Slice { code: self.slice_code, partial, start, reads, writes });
    }

    fn fault(&mut self, kind: FaultKind, bank: u8) {
        self.end_run();
        self.counts.2 += 1;
        self.pass(self.clock, 0xffff);
        let delta = (self.clock - self.now) as u32;
        self.now = self.clock;
        self.word(WordRecord::Fault { delta, kind, bank });
    }

    fn access(&mut self, number: u64, write: bool) {
        self.pass(self.clock, MAX_DELTA.into());
        self.select(number);
        let delta = (self.clock - self.now) as u32;
        self.now = self.clock;
        self.block_accesses += 1;
        let number = (number & ((1 << NUMBER_BITS) - 1)) as u32;
        self.push_half(Half::Access { direction: Direction::from_bit(write), delta, number });
        self.full();
    }

    /// Adds records of passed time until at most `most` clocks are left to `clock`.
    fn pass(&mut self, clock: u64, most: u64) {
        while clock - self.now > most {
            let skip = (clock - self.now).min(MAX_SKIP.into());
            self.now += skip;
            self.push_half(Half::Skip(skip as u32));
        }
    }

    fn select(&mut self, number: u64) {
        let segment = (number >> NUMBER_BITS) as u32;
        if segment != self.segment {
            self.segment = segment;
            self.push_half(Half::Segment { segment, skip: 0 });
        }
    }

    fn push_half(&mut self, half: Half) {
        match self.half.take() {
            None => self.half = Some(half.encode()),
            Some(first) => self.words.push(u64::from(first) << 32 | u64::from(half.encode())),
        }
    }

    fn word(&mut self, record: WordRecord) {
        if self.half.is_some() {
            self.push_half(Half::Skip(0));
        }
        let (first, second) = record.encode();
        self.words.push(first);
        self.words.extend(second.into_iter().flatten());
        self.full();
    }

    fn full(&mut self) {
        if self.words.len() >= FRAME_WORDS {
            self.flush();
        }
    }

    fn open_block(&mut self) {
        let log2 = match self.granularity {
            Granularity::Line => self.memory.line_log2,
            Granularity::Burst => self.memory.burst_log2(),
        };
        self.sync = Sync {
            clock: self.now,
            unit_log2: unit_log2(self.mode, log2, PAGE_LOG2),
            segment: self.segment,
            accesses: self.sync.accesses + self.block_accesses,
            lost: 0,
        };
        self.block_accesses = 0;
    }

    fn flush(&mut self) {
        if self.half.is_some() {
            self.push_half(Half::Skip(0));
        }
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.send(FrameKind::Data, &words);
        }
        self.open_block();
    }

    fn send(&mut self, kind: FrameKind, words: &[u64]) {
        let words = [&self.sync.encode()[..], words].concat();
        let header = PayloadHeader {
            version: FORMAT_VERSION,
            kind: kind as u8,
            words: words.len() as u8,
            lost: 0,
        };
        let mut buffer = [0; frame::MAX_FRAME_BYTES];
        let length = frame::encode(&mut buffer, self.counter, header, &words);
        self.counter += 1;
        let fcs = crc32fast::hash(&buffer[..length]).to_le_bytes();
        let preamble = [0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5];
        self.wire.extend(preamble.iter().chain(&buffer[..length]).chain(&fcs).map(|b| Some(*b)));
        self.wire.extend([None; GAP]);
    }

    fn report(&mut self, kind: FrameKind) {
        let memory = StaticWords::new(&self.memory);
        let report = Report {
            version: FORMAT_VERSION,
            running: kind == FrameKind::Info,
            mode: self.mode,
            frequency: self.frequency,
            granularity: self.granularity,
            slice_code: self.slice_code,
            threshold: FRAME_WORDS as u8,
            tag_window: None,
            reads: self.counts.0,
            writes: self.counts.1,
            faults: self.counts.2,
            tags: 0,
            unreported: 0,
            burst_length: Some(self.memory.burst_length),
            digest: memory.as_slice()[0],
            memory: self.memory.clone(),
        };
        let words = [&report.encode_dynamic()[..], memory.as_slice()].concat();
        self.send(kind, &words);
    }

    fn stop(&mut self) {
        self.end_run();
        let length = u64::from(slice_clocks(self.slice_code, self.memory.tck_ps));
        let elapsed = self.clock - self.slice.0;
        self.end_slice((elapsed < length).then_some(elapsed as u32));
        self.flush();
        for _ in 0..END_REPEATS {
            self.report(FrameKind::End);
        }
    }
}
