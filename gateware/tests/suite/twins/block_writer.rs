//! Tests the block writer: the content of the FIFO for random records and free space.

use std::collections::BTreeMap;

use fastrand::Rng;
use gateware::config::Settings;
use gateware::record::{Record, RecordKind};
use hmtt_format::FORMAT_VERSION;
use hmtt_format::FaultKind;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::config::Mode;
use hmtt_format::event::{Event, SliceLength};
use hmtt_format::frame::FrameKind;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};

use super::blocks::{Bench, Framed, Slice, event};
use crate::direct::{chance, spread, with_seeds};
use crate::memories;

/// Number of clocks in a whole slice.
const WHOLE: u64 = 1000;

/// An offered record: the event that a reader decodes, and its effect on clock and counts.
#[derive(Clone, Debug)]
struct Offered {
    event: Option<Event>,
    clock: u64,
    accesses: u64,
    /// Number of records that are lost if it is not stored.
    records: u64,
}

/// Offers records and stores them for comparison.
struct Source {
    bench: Bench,
    mode: Mode,
    unit_log2: u8,
    clock: u64,
    offered: Vec<Offered>,
}

impl Source {
    fn new(mode: Mode, threshold: u8) -> Self {
        let settings = Settings {
            mode: (mode as u64).into(),
            threshold: u64::from(threshold).into(),
            ..Default::default()
        };
        let unit_log2 = match mode {
            Mode::Line => 6,
            Mode::Page => 12,
            _ => UNIT_NONE,
        };
        let memory = memories::ddr1("tick_clocks = 256");
        let bench = Bench::new(&memory, settings);
        Self { bench, mode, unit_log2, clock: 0, offered: Vec::new() }
    }

    fn record(&mut self, record: Record) {
        self.bench.hand(record);
        self.clock += record.delta.to_u64();
        let counts = record.reads.to_u64() + record.writes.to_u64();
        let missed = (record.segment.to_u64() & 63) << 26 | record.number.to_u64();
        let (accesses, records) = match record.kind {
            RecordKind::Access | RecordKind::Tag => (1, 1),
            RecordKind::Page => (counts, 1),
            RecordKind::Overrun => (missed, missed + (record.segment.to_u64() >> 6)),
            RecordKind::Skip => (0, 0),
            _ => (0, 1),
        };
        let event = event(&record, self.clock, self.unit_log2);
        self.offered.push(Offered { event, clock: self.clock, accesses, records });
    }

    fn slice(&mut self, slice: Slice) {
        self.bench.slice(slice, WHOLE);
        let event = Event::Slice {
            clock: hmtt_format::Cycles(slice.first),
            code: Some(0),
            length: SliceLength::of_record(slice.length.map(hmtt_format::Cycles)),
            reads: slice.reads as u32,
            writes: slice.writes as u32,
        };
        let counted = slice.reads + slice.writes & 0xffff_ffff;
        let accesses = if self.unit_log2 == UNIT_NONE { counted } else { 0 };
        let clock = self.clock;
        self.offered.push(Offered { event: Some(event), clock, accesses, records: 1 });
    }

    fn random(&mut self, rng: &mut Rng, number: u64) {
        let traced = match self.mode {
            Mode::Line => RecordKind::Access,
            Mode::Page => RecordKind::Page,
            _ => RecordKind::Tag,
        };
        let kind = match rng.u8(0..40) {
            0 => RecordKind::Tag,
            1 => RecordKind::Mark,
            2 => RecordKind::Fault,
            3 if chance(rng, 30) => RecordKind::Overrun,
            4 if chance(rng, 30) => RecordKind::Skip,
            5 | 6 => {
                let small = self.unit_log2 == UNIT_NONE;
                let count = |rng: &mut Rng| spread(rng, if small { 31 } else { 32 });
                let length = rng.bool().then(|| rng.u64(1..WHOLE));
                return self.slice(Slice {
                    first: number,
                    reads: count(rng),
                    writes: count(rng),
                    length,
                });
            }
            _ => traced,
        };
        let short = chance(rng, 60);
        let count =
            |rng: &mut Rng| if short { rng.u64(0..33) } else { spread(rng, RUN_COUNT_LOG2 + 1) };
        let fault = u64::from(FaultKind::ALL[rng.usize(0..7)].code()) << 8 | rng.u64(0..64);
        let delta = match rng.u8(0..10) {
            0 => spread(rng, 25),
            1 => rng.u64(0xfff0..0x1_0010),
            2 => rng.u64(250..260),
            _ => rng.u64(0..33),
        };
        // Different clocks identify records.
        let delta = delta.max(1);
        self.record(Record {
            kind,
            write: rng.bool(),
            number: if kind == RecordKind::Fault { fault } else { spread(rng, 26) }.into(),
            segment: if chance(rng, 80) { 3 } else { spread(rng, 12) }.into(),
            reads: count(rng).into(),
            writes: count(rng).into(),
            duration: spread(rng, if short { 11 } else { RUN_DURATION_LOG2 + 1 }).into(),
            delta: delta.into(),
        });
    }

    /// Checks that each block contains records in order, and states exactly what was offered and
    /// what was lost before it.
    fn check(&self, threshold: u8) {
        let mut places = BTreeMap::new();
        for (place, offered) in self.offered.iter().enumerate() {
            places.extend(offered.event.map(|event| (format!("{event:?}"), place)));
        }
        let (mut next, mut lost, mut accesses, mut clock) = (0, 0, 0, 0);
        for (number, block) in self.data().enumerate() {
            assert_eq!(block.header.version, FORMAT_VERSION);
            assert!(block.header.words <= threshold, "{} words", block.header.words);
            let (events, ends, counted) = block.read();
            let place = |event: &Event| places.get(&format!("{event:?}")).copied();
            let first = events.first().and_then(place);
            let Some(first) = first else {
                panic!("block {number} begins with {:?}", events.first())
            };
            for missing in &self.offered[next..first] {
                lost += missing.records;
                accesses += missing.accesses;
                clock = clock.max(missing.clock);
            }
            next = first;
            assert_eq!(u64::from(block.sync.lost), lost & 0xff_ffff, "lost before block {number}");
            assert_eq!(block.sync.accesses, accesses & 0xff_ffff_ffff, "before block {number}");
            assert_eq!(block.sync.clock, clock, "clock of block {number}");
            assert_eq!(block.sync.unit_log2, self.unit_log2);
            let (before, mut events) = (accesses, events.into_iter());
            while events.len() > 0 {
                let offered = &self.offered[next];
                if offered.event.is_some() {
                    assert_eq!(offered.event, events.next(), "record {next}");
                } else {
                    assert_eq!(offered.records, 0, "nothing is lost within block {number}");
                }
                accesses += offered.accesses;
                clock = offered.clock;
                next += 1;
            }
            assert_eq!(counted, accesses - before, "accesses in block {number}");
            // The time up to a record may be in the block before it.
            let records = self.offered[next..].iter().find(|offered| offered.records > 0);
            let until = records.or(self.offered.last()).map_or(clock, |next| next.clock);
            assert!((clock..=until).contains(&ends), "block {number} ends at {ends}, not {clock}");
            clock = ends;
        }
    }

    fn data(&self) -> impl Iterator<Item = &Framed> {
        self.bench.blocks.iter().filter(|block| block.header.kind == FrameKind::Data as u8)
    }
}

#[test]
fn blocks_hold_whole_records_and_syncs_count_exactly() {
    with_seeds(0..30, |rng| {
        let threshold = [8, 16, 32, 187][rng.usize(0..4)];
        let mode = [Mode::Line, Mode::Page, Mode::Frequency][rng.usize(0..3)];
        let mut source = Source::new(mode, threshold);
        for step in 0..2000 {
            source.bench.chain.space_available.next =
                chance(rng, if step % 700 < 400 { 95 } else { 10 });
            match rng.u8(0..40) {
                0 => source.bench.request(RecordKind::Tick),
                1 => source.bench.request(RecordKind::Change),
                2..8 => source.bench.wait(rng.u32(0..6)),
                _ => source.random(rng, step),
            }
        }
        source.bench.close();
        assert!(source.bench.blocks.len() > 20, "{} blocks", source.bench.blocks.len());
        assert!(source.bench.chain.lossy.val());
        source.check(threshold);
    });
}

#[test]
fn blocks_have_the_length_of_the_threshold_unless_closed_early() {
    with_seeds(0..6, |rng| {
        let mut source = Source::new([Mode::Line, Mode::Page][rng.usize(0..2)], 64);
        for number in 0..1500 {
            source.random(rng, number);
            if source
                .offered
                .last()
                .is_some_and(|offered| offered.event.is_none() && offered.records > 0)
            {
                // An overrun closes a block early.
                return;
            }
        }
        source.check(64);
        assert!(!source.bench.chain.lossy.val());
        let lengths: Vec<u8> = source.data().map(|block| block.header.words).collect();
        assert!(lengths.iter().all(|&words| words > 64 - 5), "{lengths:?}");
        assert!(source.mode == Mode::Page || lengths.contains(&64), "{lengths:?}");
        let wrong = rng.usize(0..source.bench.blocks.len());
        source.bench.blocks[wrong].sync.accesses ^= 1;
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| source.check(64)));
        assert!(checked.is_err(), "a wrong count is noticed");
    });
}

fn access() -> Record {
    Record { kind: RecordKind::Access, delta: 1u64.into(), ..Default::default() }
}

#[test]
fn an_access_takes_two_clocks() {
    let mut source = Source::new(Mode::Line, 187);
    source.record(access());
    source.bench.wait_until(|chain| chain.free.val());
    let accesses = (0..100).filter(|_| source.bench.clock(access())).count();
    assert!(accesses >= 49, "{accesses} in 100 clocks");
}

#[test]
fn a_long_record_does_not_split_at_the_end_of_a_block() {
    let page = |count: u64| Record {
        kind: RecordKind::Page,
        delta: 1u64.into(),
        reads: count.into(),
        ..Default::default()
    };
    for short in 1..16 {
        let mut source = Source::new(Mode::Page, 16);
        (0..short).for_each(|_| source.record(page(1)));
        source.record(page(1000));
        source.bench.close();
        source.check(16);
        let words: usize = source.data().map(|block| block.words.len()).sum();
        let blocks = if short > 12 { 2 } else { source.data().count() };
        assert_eq!((words, source.data().count()), (2 * blocks + short + 2, blocks), "{short}");
    }
}

#[test]
fn a_block_waits_for_one_whole_tick_and_no_longer() {
    let mut source = Source::new(Mode::Line, 187);
    source.record(access());
    for expected in [0, 1] {
        source.bench.request(RecordKind::Tick);
        source.bench.wait(40);
        assert_eq!(source.bench.blocks.len(), expected, "the first may come right after a record");
    }
}
