//! Every bit of every field of every record kind, through the packer and back.

use gateware::statistics::packer::Packer;
use gateware::statistics::{FramedWord, Record, RecordKind, WordKind};
use hmtt_format::block::Event;
use hmtt_format::config::SLICE_CODES;
use hmtt_format::record::{CLOCK_MASK, MAX_SKIP, NUMBER_BITS, SEGMENT_BITS, TagSource};
use hmtt_format::{Access, Cycles, Direction, FaultKind, PhysAddr};

use crate::decoding::{Told, tell};
use crate::direct::{pulse, settle, settled};

const UNIT_LOG2: u8 = 2;

/// Feeds records to a packer that is never made to wait.
fn pack(records: &[Record], slice_code: u8) -> Vec<FramedWord> {
    let mut packer = settled(Packer::default());
    packer.slice_code.next = u64::from(slice_code).into();
    let (mut words, mut next) = (Vec::new(), 0);
    while next < records.len() || packer.word.val().kind != WordKind::Nothing {
        packer.record.next = records.get(next).copied().unwrap_or_default();
        packer.word_taken.next = packer.word.val().kind != WordKind::Nothing;
        settle(&mut packer);
        if packer.word_taken.val() {
            words.push(packer.word.val());
        }
        if packer.taken.val() {
            next += 1;
        }
        pulse(&mut packer, |packer| &mut packer.clock);
    }
    words
}

/// Lets a record follow a start at `base` and a tick after it push out what is held.
fn event_after(base: u64, delta: u64, record: Record, slice_code: u8) -> Event {
    let at = |mut record: Record, clock: u64| {
        let clock = clock & CLOCK_MASK;
        record.clock = (clock & 0xffff_ffff).into();
        record.clock_high = (clock >> 32).into();
        record
    };
    let steer = |kind| Record { kind, ..Default::default() };
    let delta_of = |record: Record| Record { delta: delta.into(), ..record };
    let records = [
        at(steer(RecordKind::Start), base),
        at(delta_of(record), base + delta),
        at(steer(RecordKind::Tick), base + delta),
    ];
    let told = tell(&pack(&records, slice_code), UNIT_LOG2);
    match &told[..] {
        [Told::Steer(..), Told::Event(event), Told::Steer(..)] => *event,
        other => panic!("one record became {other:?}"),
    }
}

/// Zero, all ones, and each bit alone.
fn walk(bits: u32) -> Vec<u64> {
    let ones = u64::MAX >> (64 - bits);
    (0..bits)
        .map(|bit| 1 << bit)
        .chain([0, ones])
        .chain((0..bits).map(|bit| ones ^ 1 << bit))
        .collect()
}

/// Places in time: each bit of the clock, and each length a delta can have.
fn times() -> Vec<(u64, u64)> {
    let skips = walk(MAX_SKIP.count_ones()).into_iter().map(|delta| (1 << 20, delta));
    walk(48).into_iter().map(|base| (base & CLOCK_MASK >> 1, 7)).chain(skips).collect()
}

fn access(segment: u64, number: u64, write: bool) -> Record {
    Record {
        kind: RecordKind::Access,
        write,
        segment: segment.into(),
        number: number.into(),
        ..Default::default()
    }
}

#[test]
fn accesses_come_back() {
    for write in [false, true] {
        let check = |base, delta, segment: u64, number: u64| {
            let expected = Event::Access(Access {
                clock: Cycles(base + delta),
                direction: Direction::from_bit(write),
                address: PhysAddr((segment << NUMBER_BITS | number) << UNIT_LOG2),
            });
            assert_eq!(event_after(base, delta, access(segment, number, write), 0), expected);
        };
        walk(SEGMENT_BITS).into_iter().for_each(|segment| check(1, 2, segment, 0x155_5555));
        walk(NUMBER_BITS).into_iter().for_each(|number| check(1, 2, 0x555, number));
        times().into_iter().for_each(|(base, delta)| check(base, delta, 1, 1));
        (0..64).for_each(|delta| check(9, delta, 0, 3));
    }
}

#[test]
fn tags_come_back() {
    let sources =
        [TagSource::Mark, TagSource::Window(Direction::Read), TagSource::Window(Direction::Write)];
    for source in sources {
        let check = |base, delta, value: u64| {
            let record = Record {
                kind: RecordKind::Tag,
                flag: source == TagSource::Mark,
                write: source == TagSource::Window(Direction::Write),
                value: value.into(),
                ..Default::default()
            };
            let expected = Event::Tag { clock: Cycles(base + delta), source, value: value as u32 };
            assert_eq!(event_after(base, delta, record, 0), expected);
        };
        walk(32).into_iter().for_each(|value| check(1, 2, value));
        times().into_iter().for_each(|(base, delta)| check(base, delta, 0x1234));
        (0xfffe..0x10003).for_each(|delta| check(9, delta, 3));
    }
}

#[test]
fn faults_come_back() {
    for kind in FaultKind::ALL {
        let check = |base, delta, bank: u64| {
            let value = u64::from(kind.code()) << 8 | bank;
            let record =
                Record { kind: RecordKind::Fault, value: value.into(), ..Default::default() };
            let expected = Event::Fault { clock: Cycles(base + delta), kind, bank: bank as u8 };
            assert_eq!(event_after(base, delta, record, 0), expected);
        };
        walk(6).into_iter().for_each(|bank| check(1, 2, bank));
        times().into_iter().for_each(|(base, delta)| check(base, delta, 5));
    }
}

#[test]
fn page_runs_come_back_short_and_long() {
    let check = |base, delta, page: u64, [reads, writes, duration]: [u64; 3]| {
        let record = Record {
            kind: RecordKind::Page,
            segment: (page >> NUMBER_BITS).into(),
            number: (page & ((1 << NUMBER_BITS) - 1)).into(),
            reads: reads.into(),
            writes: writes.into(),
            duration: duration.into(),
            ..Default::default()
        };
        let expected = Event::Page {
            clock: Cycles(base + delta),
            address: PhysAddr(page << UNIT_LOG2),
            reads: reads as u32,
            writes: writes as u32,
            duration: duration as u32,
        };
        assert_eq!(event_after(base, delta, record, 0), expected);
    };
    for other in [[1, 1, 1], [31, 31, 1023], [32, 1, 1], [1, 32, 1], [1, 1, 1024]] {
        let [reads, writes, duration] = other;
        walk(38).into_iter().for_each(|page| check(1, 2, page, other));
        times().into_iter().for_each(|(base, delta)| check(base, delta, 5, other));
        walk(20).into_iter().for_each(|reads| check(1, 2, 5, [reads, writes, duration]));
        walk(20).into_iter().for_each(|writes| check(1, 2, 5, [reads, writes, duration]));
        walk(24).into_iter().for_each(|duration| check(1, 2, 5, [reads, writes, duration]));
        (250..260).for_each(|delta| check(9, delta, 3, other));
    }
}

#[test]
fn slices_come_back_whole_and_partial() {
    for partial in [false, true] {
        let check = |code: u8, start: u64, [reads, writes, length]: [u64; 3]| {
            let record = Record {
                kind: RecordKind::Slice,
                flag: partial,
                value: (start & 0xffff_ffff).into(),
                start_high: (start >> 32).into(),
                reads: reads.into(),
                writes: writes.into(),
                duration: length.into(),
                ..Default::default()
            };
            let expected = Event::Slice {
                clock: Cycles(start),
                code,
                partial: partial.then_some(Cycles(length)),
                reads: reads as u32,
                writes: writes as u32,
            };
            assert_eq!(event_after(1, 2, record, code), expected);
        };
        (0..SLICE_CODES).for_each(|code| check(code, 1, [1, 2, 3]));
        walk(48).into_iter().for_each(|start| check(9, start, [1, 2, 3]));
        walk(32).into_iter().for_each(|reads| check(9, 4, [reads, 2, 3]));
        walk(32).into_iter().for_each(|writes| check(9, 4, [1, writes, 3]));
        walk(32).into_iter().for_each(|length| check(9, 4, [1, 2, length]));
    }
}

#[test]
fn overruns_come_back() {
    for (accesses, faults) in walk(32).into_iter().zip(walk(8).into_iter().cycle()) {
        let record = Record {
            kind: RecordKind::Overrun,
            value: accesses.into(),
            reads: faults.into(),
            ..Default::default()
        };
        assert_eq!(tell(&pack(&[record], 0), UNIT_LOG2), [Told::Overrun(accesses, faults)]);
    }
}
