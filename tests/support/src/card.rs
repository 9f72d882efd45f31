//! Simulates a card in software: builds frames from records, and returns the accesses of these
//! records.

use hmtt_format::address_map::{Axis, MapBuilder};
use hmtt_format::config::{self, Granularity, Mode};
use hmtt_format::frame::{
    COUNTER_MASK, FrameKind, HEARTBEAT_WORDS, Heartbeat, MAX_FRAME_BYTES, MAX_WORDS, PayloadHeader,
    SYNC_WORDS, Sync, encode,
};
use hmtt_format::info::StaticWords;
use hmtt_format::record::{Half, MAX_SKIP, WordRecord};
use hmtt_format::{
    Access, Cycles, Direction, FORMAT_VERSION, Generation, MemoryDescription, PhysAddr, Report,
};

/// Largest number of line accesses in a frame.
pub const MAX_ACCESSES: u64 = (MAX_WORDS - SYNC_WORDS) as u64 * 2;
const LINE_LOG2: u8 = 6;

/// State of the simulated card; public so that tests can change it.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// Counter of the next frame.
    pub counter: u64,
    /// Event clock of the card.
    pub clock: u64,
    /// Clock at which the last data frame ended, and records lost until then; `None` if a report
    /// has followed. If no record was lost since then, the next data frame begins at this clock,
    /// and skips to [`Card::clock`] if a test has advanced that clock.
    pub ended: Option<(u64, u32)>,
    /// Accesses so far.
    pub accesses: u64,
    /// Records lost so far.
    pub lost: u32,
    /// Base of the tag window, if it is on.
    pub tag_window: Option<u64>,
    /// log2 of the bytes that a record's number counts.
    pub unit_log2: u8,
    /// Mode in reports, if it is not line mode.
    pub mode: Option<Mode>,
    /// Bursts that the card counts in addition to its accesses.
    pub more_bursts: u64,
}

impl Card {
    /// Creates a card in the state after power-on.
    pub fn new() -> Self {
        Card { unit_log2: LINE_LOG2, ..Card::default() }
    }

    /// Builds a frame of this kind, with a sync before the words.
    pub fn frame(&mut self, kind: FrameKind, words: &[u64]) -> Vec<u8> {
        let Card { clock, unit_log2, accesses, lost, .. } = *self;
        let skipped = if kind == FrameKind::Data { self.skipped() } else { 0 };
        let sync = Sync { clock: clock - skipped, unit_log2, segment: 0, accesses, lost };
        let skip = u64::from(Half::Skip(skipped as u32).encode()) << 32
            | u64::from(Half::Skip(0).encode());
        let skip = [skip];
        let skip = if skipped == 0 { &[][..] } else { &skip };
        let words = [&sync.encode()[..], skip, words].concat();
        self.ended = self.ended.filter(|_| kind == FrameKind::Data);
        let header = PayloadHeader {
            version: FORMAT_VERSION,
            kind: kind as u8,
            words: words.len() as u8,
            lost: lost as u16,
        };
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = encode(&mut buffer, self.counter, header, &words);
        self.counter = (self.counter + 1) & COUNTER_MASK;
        buffer[..length].to_vec()
    }

    /// Clocks since the end of the last data frame, which the next data frame has to skip. 0 if
    /// there are more than [`MAX_SKIP`], because a real card never has to skip that many.
    fn skipped(&self) -> u64 {
        let ended = self.ended.filter(|(_, lost)| *lost == self.lost);
        let silence = ended.map_or(0, |(clock, _)| self.clock.wrapping_sub(clock));
        if silence <= u64::from(MAX_SKIP) { silence } else { 0 }
    }

    /// Counts the clocks and accesses of the data frame that was built last.
    pub fn advance(&mut self, clocks: u64, accesses: u64) {
        self.clock += clocks;
        self.accesses += accesses;
        self.ended = Some((self.clock, self.lost));
    }

    /// Builds a data frame of `count` line accesses. Returns the frame and its accesses.
    ///
    /// # Panics
    /// If `count` is larger than [`MAX_ACCESSES`].
    pub fn data(&mut self, count: u64) -> (Vec<u8>, Vec<Access>) {
        assert!(count <= MAX_ACCESSES);
        let mut clock = self.clock;
        let mut truth = Vec::new();
        let mut halves: Vec<u32> = (0..count)
            .map(|index| {
                let serial = self.accesses + index;
                let (delta, number) =
                    (serial as u32 % 7, (serial as u32).wrapping_mul(37) & 0xf_ffff);
                let direction = Direction::from_bit(serial.is_multiple_of(3));
                clock += u64::from(delta);
                let address = PhysAddr(u64::from(number) << LINE_LOG2);
                truth.push(Access { clock: Cycles(clock), direction, address });
                Half::Access { direction, delta, number }.encode()
            })
            .collect();
        if !halves.len().is_multiple_of(2) {
            halves.push(Half::Skip(0).encode());
        }
        let words: Vec<u64> =
            halves.chunks(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[1])).collect();
        let frame = self.frame(FrameKind::Data, &words);
        self.advance(clock - self.clock, count);
        (frame, truth)
    }

    /// Builds a data frame of word records, which stand for `accesses` accesses and `clocks`
    /// clocks.
    pub fn records(&mut self, records: &[WordRecord], accesses: u64, clocks: u64) -> Vec<u8> {
        let words: Vec<u64> = records
            .iter()
            .flat_map(|record| {
                let (first, rest) = record.encode();
                std::iter::once(first).chain(rest.into_iter().flatten())
            })
            .collect();
        let frame = self.frame(FrameKind::Data, &words);
        self.advance(clocks, accesses);
        frame
    }

    /// Builds a heartbeat.
    pub fn heartbeat(&mut self, heartbeat: Heartbeat) -> Vec<u8> {
        let header = PayloadHeader {
            version: FORMAT_VERSION,
            kind: FrameKind::Heartbeat as u8,
            words: HEARTBEAT_WORDS,
            lost: 0,
        };
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = encode(&mut buffer, self.counter, header, &heartbeat.encode());
        self.counter = (self.counter + 1) & COUNTER_MASK;
        buffer[..length].to_vec()
    }

    /// Builds an info frame: a report while the capture runs.
    pub fn info(&mut self) -> Vec<u8> {
        self.report(FrameKind::Info)
    }

    /// Builds an end frame: the report that ends a session.
    pub fn end(&mut self) -> Vec<u8> {
        self.report(FrameKind::End)
    }

    fn report(&mut self, kind: FrameKind) -> Vec<u8> {
        let memory = memory();
        let words = StaticWords::new(&memory);
        let report = Report {
            version: FORMAT_VERSION,
            running: kind == FrameKind::Info,
            mode: self.mode.unwrap_or(Mode::Line),
            frequency: false,
            granularity: Granularity::Line,
            slice_code: config::DEFAULT_SLICE_CODE,
            threshold: MAX_WORDS,
            tag_window: self.tag_window,
            reads: self.accesses / 2 + self.more_bursts,
            writes: self.accesses - self.accesses / 2,
            faults: 1,
            tags: 2,
            unreported: 0,
            burst_length: Some(memory.burst_length),
            digest: words.as_slice()[0],
            memory,
        };
        self.frame(kind, &[&report.encode_dynamic()[..], words.as_slice()].concat())
    }

    /// Builds a whole session: info frame, `frames` data frames of `count` accesses, end frame.
    pub fn session(&mut self, frames: usize, count: u64) -> (Vec<Vec<u8>>, Vec<Access>) {
        let mut sent_frames = vec![self.info()];
        let mut truth = Vec::new();
        for _ in 0..frames {
            let (frame, accesses) = self.data(count);
            sent_frames.push(frame);
            truth.extend(accesses);
        }
        sent_frames.push(self.end());
        (sent_frames, truth)
    }
}

fn memory() -> MemoryDescription {
    let mut map = MapBuilder::default();
    (0..11).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
    (0..2).for_each(|bit| map.bit(Axis::Bank, bit, 0b101 << (14 + bit)).unwrap());
    (0..13).for_each(|bit| map.bit(Axis::Row, bit, 1 << (16 + bit)).unwrap());
    MemoryDescription::new(Generation::Ddr1, map.build().unwrap(), 8, 4, 10_000).unwrap()
}
