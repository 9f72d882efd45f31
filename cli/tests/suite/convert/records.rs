//! Tests HMTT's 6-byte records: what the format holds is read back, and what it cannot hold is
//! counted.

use std::fs;
use std::io::Cursor;

use hmtt::CardId;
use hmtt::decode::Gap;
use hmtt::table::hmtt6::{Hmtt6Reader, Hmtt6Writer, MmioHole, RECORD_BYTES, Record};
use hmtt::table::{Entry, LeftOut, Reader, Row, Writer};
use hmtt_format::{Access, Cycles, Direction, PhysAddr};
use proptest::prelude::*;

use super::samples::everything;
use super::{converted, output};
use crate::capture_file;

fn write(entries: &[Entry], hole: MmioHole) -> (Vec<u8>, LeftOut) {
    let mut bytes = Vec::new();
    let mut writer = Box::new(Hmtt6Writer::new(&mut bytes, hole));
    entries.iter().for_each(|&entry| writer.row(&Row { card: CardId(0), entry }).unwrap());
    let left_out = writer.finish().unwrap();
    (bytes, left_out)
}

fn read(bytes: &[u8], hole: MmioHole) -> Vec<Entry> {
    let mut reader = Hmtt6Reader::new(Cursor::new(bytes), hole);
    std::iter::from_fn(|| reader.next_row().unwrap()).map(|row| row.entry).collect()
}

fn access(clock: u64, direction: Direction, line: u64) -> Entry {
    Access { clock: Cycles(clock), direction, address: PhysAddr(line << 6) }.into()
}

fn accesses() -> impl Strategy<Value = Vec<Entry>> {
    let line = prop_oneof![1u64..4, 1u64..1 << 31, Just((1 << 31) - 1)];
    let pause = prop_oneof![Just(0), Just(256), 0u64..300, 0u64..100_000];
    prop::collection::vec((pause, any::<bool>(), line), 1..200).prop_map(|steps| {
        let mut clock = 0;
        let entry = |(index, (pause, write, line)): (usize, (u64, bool, u64))| {
            // The format has no clock before the first record.
            clock += if index == 0 { 0 } else { pause };
            access(clock, Direction::from_bit(write), line)
        };
        steps.into_iter().enumerate().map(entry).collect()
    })
}

proptest! {
    #[test]
    fn accesses_are_read_back(entries in accesses(), base in prop::sample::select(vec![0u64, 1 << 31])) {
        let hole = MmioHole { base };
        let entries: Vec<Entry> = entries
            .into_iter()
            .filter(|entry| !entry.access().is_some_and(|access|
                base != 0 && (base..2 * base).contains(&access.address.0)))
            .collect();
        prop_assume!(!entries.is_empty());
        let first = entries[0].clock().unwrap().0;
        let (bytes, left_out) = write(&entries, hole);
        prop_assert!(left_out.is_nothing(), "{}", left_out);
        let sequences = bytes.chunks(RECORD_BYTES).map(|record| record[RECORD_BYTES - 1]);
        prop_assert!(sequences.eq((0..=255).cycle().take(bytes.len() / RECORD_BYTES)));
        let from_zero: Vec<Entry> = entries
            .iter()
            .filter_map(Entry::access)
            .map(|access| Access { clock: Cycles(access.clock.0 - first), ..access }.into())
            .collect();
        prop_assert_eq!(read(&bytes, hole), from_zero);
    }

    #[test]
    fn any_records_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let whole = bytes.len() / RECORD_BYTES * RECORD_BYTES;
        read(&bytes[..whole], MmioHole::default());
    }
}

#[test]
fn pauses_are_empty_records_of_256_clocks() {
    let entries = [access(10, Direction::Read, 5), access(10 + 2 * 256 + 3, Direction::Write, 6)];
    let (bytes, _) = write(&entries, MmioHole::default());
    let records: Vec<Record> =
        bytes.chunks(RECORD_BYTES).map(|bytes| Record::decode(bytes.try_into().unwrap())).collect();
    let record = |sequence, duration, read, line| Record { sequence, duration, read, line };
    assert_eq!(
        records,
        [
            record(0, 0, true, 5),
            record(1, 0, false, 0),
            record(2, 0, false, 0),
            record(3, 3, false, 6)
        ]
    );
}

/// The published readers take such a record for a pause, whatever its direction.
#[test]
fn an_access_to_line_0_is_not_written_as_a_pause() {
    for direction in [Direction::Read, Direction::Write] {
        let entries = [5, 5, 261, 262].map(|clock| access(clock, direction, 0));
        let (bytes, left_out) = write(&entries, MmioHole::default());
        let clocks: Vec<u64> = read(&bytes, MmioHole::default())
            .iter()
            .map(|entry| entry.access().unwrap().clock.0)
            .collect();
        assert_eq!(clocks, [1, 2, 257, 258], "{left_out}");
        assert_eq!(
            left_out.to_string(),
            "2 accesses to line 0 at their clock, one clock late instead"
        );
    }
}

#[test]
fn a_gap_is_a_break_in_the_sequence_and_read_back_as_a_gap() {
    let gap = Entry::Gap(Gap { frames: 2, accesses: Some(740), ..Gap::default() });
    let read_at = |clock| access(clock, Direction::Read, 1);
    let (bytes, left_out) =
        write(&[read_at(0), gap, gap, read_at(9), read_at(10)], MmioHole::default());
    assert_eq!(
        left_out.to_string(),
        "2 gaps and restarts, but for a break in the sequence numbers"
    );
    let unknown = Gap { after: Some(Cycles(0)), before: Some(Cycles(9)), ..Gap::default() };
    let back = read(&bytes, MmioHole::default());
    assert_eq!(back, [read_at(0), Entry::Gap(unknown), read_at(9), read_at(10)]);
}

#[test]
fn addresses_beyond_the_field_become_a_gap() {
    let far = [1 << 31, (1 << 58) - 1].map(|line| access(3, Direction::Write, line));
    let near = access(3, Direction::Write, (1 << 31) - 1);
    let (bytes, left_out) = write(&[near, far[0], far[1], near], MmioHole::default());
    assert_eq!(left_out.to_string(), "2 accesses beyond the range of addresses");
    let kinds: Vec<_> = read(&bytes, MmioHole::default()).iter().map(Entry::kind).collect();
    assert_eq!(kinds, ["access", "gap", "access"]);
}

#[test]
fn very_long_pauses_are_cut_and_counted() {
    let entries = [access(0, Direction::Read, 1), access(u64::MAX, Direction::Read, 1)];
    let (bytes, left_out) = write(&entries, MmioHole::default());
    assert_eq!(left_out.to_string(), "1 pauses beyond 2^32 clocks, cut there");
    assert_eq!(bytes.len() / RECORD_BYTES, (1 << 24) + 2);
}

#[test]
fn everything_else_in_a_capture_is_counted_on_standard_error() {
    let capture = capture_file("convert-records.pcapng", &everything());
    let trace = output("records", "trace");
    let (complaint, code) = converted(&capture, &trace);
    assert_eq!(code, 3);
    let printed = complaint.lines().find(|line| line.contains("does not hold")).unwrap();
    let printed = printed.split_once("does not hold: ").unwrap().1;
    assert_eq!(
        printed,
        "2 tag, 3 slice, 1 mark, 1 fault, 2 page, 2 interval, 1 count, 1 hot_page, 3 ddr_clock, \
         1 no_end, 1 offsets within a line of 64 bytes, 6 gaps and restarts, but for a break in the sequence numbers, 1 accesses to line 0 \
         at their clock, one clock late instead"
    );
    let back = output("records", "csv");
    assert_eq!(converted(&trace, &back).1, 3, "its gaps are still there");
    assert!(fs::read_to_string(back).unwrap().contains("an unknown number of accesses"));
}
