//! Encodes every bit of every field of every record kind with the block writer, and decodes it.

use gateware::config::Settings;
use gateware::record::{Record, RecordKind};
use hmtt_format::FaultKind;
use hmtt_format::config::Mode;
use hmtt_format::record::{
    CLOCK_MASK, MAX_SKIP, NUMBER_BITS, RUN_COUNT_LOG2, RUN_DURATION_LOG2, SEGMENT_BITS,
};

use super::blocks::{Bench, event};
use crate::memories;

/// A writer that gets one record after a start.
struct Writer {
    bench: Bench,
    unit_log2: u8,
}

impl Writer {
    fn new(mode: Mode) -> Self {
        let settings =
            Settings { mode: (mode as u64).into(), threshold: 187u64.into(), ..Default::default() };
        let unit_log2 = if mode == Mode::Page { 12 } else { 6 };
        Self { bench: Bench::new(&memories::ddr1(""), settings), unit_log2 }
    }

    /// Checks that a record after a start at `base` is decoded unchanged.
    fn check(&mut self, base: u64, record: Record) {
        self.bench.blocks.clear();
        self.bench.now(base);
        self.bench.request(RecordKind::Start);
        self.bench.wait_until(|chain| chain.idle.val());
        self.bench.hand(record);
        self.bench.close();
        let clock = base + record.delta.to_u64() & CLOCK_MASK;
        let expected = event(&record, clock, self.unit_log2).expect("an event");
        let [_, data] = &self.bench.blocks[..] else { panic!("{:?}", self.bench.blocks) };
        assert_eq!(data.read().0, [expected]);
    }

    /// Checks a record at each bit of the clock, and with each length of a delta.
    fn check_times(&mut self, record: Record) {
        for base in walk(48) {
            self.check(base & CLOCK_MASK >> 1, Record { delta: 7u64.into(), ..record });
        }
        let near = (0..64).chain(250..260).chain(0xfffe..0x1_0003);
        for delta in walk(MAX_SKIP.count_ones()).into_iter().chain(near) {
            self.check(1 << 20, Record { delta: delta.into(), ..record });
        }
    }
}

/// Returns zero, all ones, and each bit alone.
fn walk(bits: u32) -> Vec<u64> {
    let ones = u64::MAX >> (64 - bits);
    (0..bits)
        .map(|bit| 1 << bit)
        .chain([0, ones])
        .chain((0..bits).map(|bit| ones ^ 1 << bit))
        .collect()
}

fn record(kind: RecordKind, segment: u64, number: u64) -> Record {
    Record {
        kind,
        segment: segment.into(),
        number: number.into(),
        delta: 2u64.into(),
        ..Default::default()
    }
}

#[test]
fn accesses_are_decoded_unchanged() {
    let mut writer = Writer::new(Mode::Line);
    for write in [false, true] {
        let access =
            |segment, number| Record { write, ..record(RecordKind::Access, segment, number) };
        walk(SEGMENT_BITS).into_iter().for_each(|at| writer.check(1, access(at, 0x155_5555)));
        walk(NUMBER_BITS).into_iter().for_each(|at| writer.check(1, access(0x555, at)));
        writer.check_times(access(1, 1));
    }
}

#[test]
fn tags_and_marks_are_decoded_unchanged() {
    let mut writer = Writer::new(Mode::Line);
    for (kind, write) in
        [(RecordKind::Mark, false), (RecordKind::Tag, false), (RecordKind::Tag, true)]
    {
        for value in walk(32) {
            let (high, low) = (value >> NUMBER_BITS, value & (1 << NUMBER_BITS) - 1);
            writer.check(1, Record { write, ..record(kind, high, low) });
        }
        writer.check_times(Record { write, ..record(kind, 0, 0x1234) });
    }
}

#[test]
fn faults_are_decoded_unchanged() {
    let mut writer = Writer::new(Mode::Line);
    for kind in FaultKind::ALL {
        for bank in walk(6) {
            writer.check(1, record(RecordKind::Fault, 0, u64::from(kind.code()) << 8 | bank));
        }
    }
    writer.check_times(record(RecordKind::Fault, 0, 0x105));
}

#[test]
fn short_and_long_page_runs_are_decoded_unchanged() {
    let mut writer = Writer::new(Mode::Page);
    let page = |segment, number, [reads, writes, duration]: [u64; 3]| Record {
        reads: reads.into(),
        writes: writes.into(),
        duration: duration.into(),
        ..record(RecordKind::Page, segment, number)
    };
    for other in [[31, 31, 1023], [1, 32, 1]] {
        let [reads, writes, duration] = other;
        walk(SEGMENT_BITS).into_iter().for_each(|at| writer.check(1, page(at, 5, other)));
        walk(NUMBER_BITS).into_iter().for_each(|at| writer.check(1, page(5, at, other)));
        walk(RUN_COUNT_LOG2 + 1)
            .into_iter()
            .for_each(|reads| writer.check(1, page(0, 5, [reads, writes, duration])));
        walk(RUN_COUNT_LOG2 + 1)
            .into_iter()
            .for_each(|writes| writer.check(1, page(0, 5, [reads, writes, duration])));
        walk(RUN_DURATION_LOG2 + 1)
            .into_iter()
            .for_each(|length| writer.check(1, page(0, 5, [reads, writes, length])));
        writer.check_times(page(1, 5, other));
    }
}
