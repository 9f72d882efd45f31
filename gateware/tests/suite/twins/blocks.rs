//! Connects the block writer with the units that supply words and with the FIFO that it writes to,
//! and decodes the content of the FIFO.

use gateware::config::Settings;
use gateware::fifo::ports::FifoWriter;
use gateware::record::{Record, RecordKind};
use gateware::reset::Domain;
use gateware::statistics::Totals;
use gateware::statistics::block_writer::BlockWriter;
use gateware::statistics::other_words::OtherWords;
use gateware::statistics::word_request::WordReader;
use gateware::statistics::{SliceCounts, SlotClock};
use hmtt_format::block::Block;
use hmtt_format::event::{Event, MarkRegister};
use hmtt_format::frame::{PayloadHeader, SYNC_WORDS, Sync};
use hmtt_format::record::NUMBER_BITS;
use hmtt_format::{Access, Cycles, Direction, FaultKind, MemoryDescription, PhysAddr};
use rust_hdl::prelude::*;

use crate::direct::{pulse, settle, settled};

/// log2 of the words of the tests' FIFO.
const FIFO_LOG2: usize = 10;

/// The two units, wired as the card wires them.
#[derive(LogicBlock)]
pub struct Chain {
    pub clock: Signal<In, Domain>,
    pub record: Signal<In, Record>,
    pub advance: Signal<Out, Bit>,
    pub free: Signal<Out, Bit>,
    pub idle: Signal<Out, Bit>,
    pub settings: Signal<In, Settings>,
    pub slices: Signal<In, Bit>,
    pub running: Signal<In, Bit>,
    pub totals: Signal<In, Totals>,
    pub now: Signal<In, SlotClock>,
    pub analysis_high: Signal<In, Bits<32>>,
    pub analysis_low: Signal<In, Bits<32>>,
    pub slice_accesses: Signal<In, Bits<32>>,
    pub slice_counts: Signal<In, SliceCounts>,
    pub space_available: Signal<In, Bit>,
    pub write: FifoWriter<FIFO_LOG2>,
    pub lossy: Signal<Out, Bit>,
    writer: BlockWriter<FIFO_LOG2>,
    other: OtherWords,
}

impl Chain {
    fn new(memory: &MemoryDescription) -> Self {
        Self {
            clock: Default::default(),
            record: Default::default(),
            advance: Default::default(),
            free: Default::default(),
            idle: Default::default(),
            settings: Default::default(),
            slices: Default::default(),
            running: Default::default(),
            totals: Default::default(),
            now: Default::default(),
            analysis_high: Default::default(),
            analysis_low: Default::default(),
            slice_accesses: Default::default(),
            slice_counts: Default::default(),
            space_available: Default::default(),
            write: Default::default(),
            lossy: Default::default(),
            writer: BlockWriter::new(memory),
            other: OtherWords::new(memory),
        }
    }
}

impl Logic for Chain {
    #[hdl_gen]
    fn update(&mut self) {
        self.writer.clock.next = self.clock.val();
        self.other.clock.next = self.clock.val();
        self.writer.record.next = self.record.val();
        self.writer.offered.next = self.record.val().kind != RecordKind::Nothing;
        self.writer.settings.next = self.settings.val();
        self.writer.now.next = self.now.val();
        self.writer.slice_accesses.next = self.slice_accesses.val();
        self.writer.slice_partial.next = self.slice_counts.val().partial;
        WordReader::join(&mut self.writer.words, &mut self.other.words);
        self.writer.space_available.next = self.space_available.val();
        self.other.settings.next = self.settings.val();
        self.other.slices.next = self.slices.val();
        self.other.running.next = self.running.val();
        self.other.totals.next = self.totals.val();
        self.other.analysis_high.next = self.analysis_high.val();
        self.other.analysis_low.next = self.analysis_low.val();
        self.other.slice_counts.next = self.slice_counts.val();
        self.advance.next = self.writer.advance.val();
        self.free.next = self.writer.free.val();
        self.idle.next = self.writer.idle.val();
        FifoWriter::<FIFO_LOG2>::link(&mut self.write, &mut self.writer.write);
        self.lossy.next = self.writer.lossy.val();
    }
}

/// A slice with the outputs of the counting units.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    pub first: u64,
    pub reads: u64,
    pub writes: u64,
    pub length: Option<u64>,
}

/// A block of the FIFO.
#[derive(Debug)]
pub struct Framed {
    pub header: PayloadHeader,
    pub sync: Sync,
    /// The block's words, sync first.
    pub words: Vec<u64>,
}

impl Framed {
    /// Decodes a data frame. Returns its events, and the clock and number of accesses after it.
    pub fn read(&self) -> (Vec<Event>, u64, u64) {
        let mut block = Block::new(self.words.iter().copied()).expect("a sync");
        let events = block.by_ref().map(|event| event.expect("a record")).collect();
        (events, block.clock().0, block.accesses())
    }
}

/// A writer and the FIFO that it writes to.
pub struct Bench {
    pub chain: Chain,
    halves: [Vec<u32>; 2],
    start: usize,
    pub blocks: Vec<Framed>,
}

fn slot_clock(clock: u64) -> SlotClock {
    SlotClock { low: (clock & 0xff_ffff).into(), high: (clock >> 24 & 0xff_ffff).into() }
}

impl Bench {
    /// Creates a writer with space in the FIFO.
    pub fn new(memory: &MemoryDescription, settings: Settings) -> Self {
        let mut chain = settled(Chain::new(memory));
        chain.settings.next = settings;
        chain.space_available.next = true;
        // Words that were in the FIFO before must not be taken for written ones.
        let halves = [vec![0xdead_dead; 1 << FIFO_LOG2], vec![0xdead_dead; 1 << FIFO_LOG2]];
        Self { chain, halves, start: 0, blocks: Vec::new() }
    }

    /// Sets the clock of the slot.
    pub fn now(&mut self, clock: u64) {
        self.chain.now.next = slot_clock(clock);
    }

    /// Applies one clock. Returns whether the record was taken.
    pub fn clock(&mut self, record: Record) -> bool {
        self.chain.record.next = record;
        settle(&mut self.chain);
        let address = self.chain.write.address.val().index();
        if self.chain.write.high_enable.val() {
            self.halves[0][address] = self.chain.write.high.val().to_u64() as u32;
        }
        if self.chain.write.low_enable.val() {
            self.halves[1][address] = self.chain.write.low.val().to_u64() as u32;
        }
        let is_taken = self.chain.advance.val();
        pulse(&mut self.chain, |chain| &mut chain.clock);
        self.collect();
        is_taken
    }

    /// Offers a record until it is taken.
    pub fn hand(&mut self, record: Record) {
        assert!((0..3000).any(|_| self.clock(record)), "{record:?} is taken");
    }

    /// Offers a record that waits for the one before, as the records that the configuration unit
    /// requests do.
    pub fn request(&mut self, kind: RecordKind) {
        self.wait_until(|chain| chain.free.val());
        self.hand(Record { kind, ..Default::default() });
    }

    /// Offers a slice, which is read where it is counted.
    pub fn slice(&mut self, slice: Slice, whole: u64) {
        self.wait_until(|chain| chain.free.val());
        let chain = &mut self.chain;
        chain.slice_accesses.next = (slice.reads + slice.writes & 0xffff_ffff).into();
        chain.slice_counts.next = SliceCounts {
            partial: slice.length.is_some(),
            first: slot_clock(slice.first),
            reads: slice.reads.into(),
            writes: slice.writes.into(),
            length: slice.length.unwrap_or(whole).into(),
        };
        self.hand(Record { kind: RecordKind::Slice, ..Default::default() });
        self.wait_until(|chain| chain.free.val());
    }

    /// Applies clocks without a record.
    pub fn wait(&mut self, clocks: u32) {
        for _ in 0..clocks {
            self.clock(Record::default());
        }
    }

    pub fn wait_until(&mut self, come: fn(&Chain) -> bool) {
        for _ in 0..3000 {
            if come(&self.chain) {
                return;
            }
            self.clock(Record::default());
        }
        panic!("the writer gets on");
    }

    /// Closes the open block and waits until it is in the FIFO.
    pub fn close(&mut self) {
        self.request(RecordKind::Change);
        self.clock(Record::default());
        self.wait_until(|chain| chain.idle.val());
        self.wait(4);
    }

    fn collect(&mut self) {
        let end = self.chain.write.committed.val().index();
        if end == self.start {
            return;
        }
        let word = |offset: usize| {
            let at = self.start + offset & ((1 << FIFO_LOG2) - 1);
            u64::from(self.halves[0][at]) << 32 | u64::from(self.halves[1][at])
        };
        let [.., a, b, c, d] = word(0).to_be_bytes();
        let header = PayloadHeader::decode([a, b, c, d]);
        let count = usize::from(header.words);
        let behind = self.start + count + 1 & ((1 << FIFO_LOG2) - 1);
        assert_eq!(behind, end, "`committed` is behind the last word");
        let words = (1..=count).map(word).collect::<Vec<_>>();
        assert!(words.len() >= SYNC_WORDS.into());
        let sync = Sync::decode([words[0], words[1]]);
        assert_eq!(header.lost, sync.lost as u16);
        self.blocks.push(Framed { header, sync, words });
        for at in self.start..self.start + count + 1 {
            let at = at & ((1 << FIFO_LOG2) - 1);
            self.halves.iter_mut().for_each(|half| half[at] = 0xdead_dead);
        }
        self.start = end;
    }
}

/// Returns the event that a reader decodes from a timed record; `None` for a record that is no
/// event.
pub fn event(record: &Record, clock: u64, unit_log2: u8) -> Option<Event> {
    let clock = Cycles(clock);
    let (number, segment) = (record.number.to_u64(), record.segment.to_u64());
    let value = (segment << NUMBER_BITS | number) as u32;
    let direction = Direction::from_bit(record.write);
    let address = PhysAddr((segment << NUMBER_BITS | number) << unit_log2);
    Some(match record.kind {
        RecordKind::Access => Event::Access(Access { clock, direction, address }),
        RecordKind::Tag => Event::Tag { clock, direction, offset: value, address: None },
        RecordKind::Mark => Event::Mark { clock, register: MarkRegister(value) },
        RecordKind::Fault => {
            let kind = FaultKind::from_code((number >> 8) as u8 & 63).expect("a kind");
            Event::Fault { clock, kind, bank: number as u8 & 63 }
        }
        RecordKind::Page => Event::Page {
            clock,
            address,
            reads: record.reads.to_u64() as u32,
            writes: record.writes.to_u64() as u32,
            duration: record.duration.to_u64() as u32,
        },
        _ => return None,
    })
}
