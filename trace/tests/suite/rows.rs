//! Tests that each format returns the rows that were written, whatever they are.

use std::fs::File;
use std::io::Cursor;
use std::time::Duration;

use hmtt::CardId;
use hmtt::decode::{Accesses, DdrClock, Gap};
use hmtt::table::csv::{CsvReader, CsvWriter};
use hmtt::table::jsonl::{JsonlReader, JsonlWriter};
use hmtt::table::parquet::{Encodings, ParquetReader, ParquetWriter};
use hmtt::table::{Entry, Reader, Row, Writer};
use hmtt_format::event::{MarkRegister, SliceLength};
use hmtt_format::record::CountGroup;
use hmtt_format::{Access, Cycles, Direction, Event, FaultKind, PhysAddr};
use parquet::basic::Encoding;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use crate::scratch;

fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0u64..4, any::<u32>().prop_map(u64::from), 0..=i64::MAX as u64]
}

fn clock() -> impl Strategy<Value = Cycles> + Clone {
    number().prop_map(Cycles)
}

fn address() -> impl Strategy<Value = PhysAddr> {
    prop_oneof![number(), any::<u64>()].prop_map(PhysAddr)
}

fn direction() -> impl Strategy<Value = Direction> {
    any::<bool>().prop_map(Direction::from_bit)
}

fn gap() -> impl Strategy<Value = Gap> {
    let option = || prop::option::of(any::<u64>());
    let clocks = || prop::option::of(clock());
    let counts = (any::<u64>(), option(), any::<u32>(), any::<u64>(), option());
    let time = || prop::option::of((any::<u64>(), 0..1_000_000_000u32));
    let place = (option(), option(), time(), time());
    (counts, clocks(), clocks(), place).prop_map(|(counts, after, before, place)| {
        let (frames, first_frame, records, malformed_frames, accesses) = counts;
        let (after_packet, before_packet, after_time, before_time) = place;
        let time = |(seconds, nanos)| Duration::new(seconds, nanos);
        Gap {
            frames,
            first_frame,
            records,
            malformed_frames,
            accesses,
            after,
            before,
            after_packet,
            before_packet,
            after_time: after_time.map(time),
            before_time: before_time.map(time),
        }
    })
}

fn access() -> impl Strategy<Value = Access> {
    (clock(), direction(), address()).prop_map(|(clock, direction, address)| Access {
        clock,
        direction,
        address,
    })
}

fn group() -> impl Strategy<Value = CountGroup> {
    (0u32..5).prop_map(|code| CountGroup::from_code(code).unwrap())
}

/// Any event of a table except an access.
fn event() -> impl Strategy<Value = Event> {
    let fault = prop::sample::select(&FaultKind::ALL[..]);
    prop_oneof![
        (clock(), direction(), any::<u32>(), prop::option::of(any::<u32>())).prop_map(
            |(clock, direction, offset, base)| Event::Tag {
                clock,
                direction,
                offset,
                address: base.map(|base| PhysAddr(u64::from(base) << 32 | u64::from(offset))),
            }
        ),
        (clock(), any::<u32>().prop_map(MarkRegister))
            .prop_map(|(clock, register)| Event::Mark { clock, register }),
        (clock(), fault, any::<u8>()).prop_map(|(clock, kind, bank)| Event::Fault {
            clock,
            kind,
            bank
        }),
        (clock(), address(), any::<(u32, u32, u32)>()).prop_map(
            |(clock, address, (reads, writes, duration))| Event::Page {
                clock,
                address,
                reads,
                writes,
                duration,
            }
        ),
        (clock(), prop::option::of(clock()), any::<(bool, u32, u32)>()).prop_map(
            |(clock, clocks, (partial, reads, writes))| {
                let length = SliceLength::new(clocks, partial);
                Event::Slice { clock, code: None, length, reads, writes }
            }
        ),
        (clock(), any::<u8>()).prop_map(|(clock, part)| Event::Interval { clock, part }),
        (any::<(u8, u16, u32)>(), group()).prop_map(|((dump, index, value), group)| Event::Count {
            dump,
            group,
            index,
            value
        }),
        (any::<(u8, u32, u32)>(), address()).prop_map(|((dump, count, votes), address)| {
            Event::HotPage { dump, address, count, votes }
        }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        8 => access().prop_map(Entry::from),
        8 => event().prop_map(Entry::Event),
        1 => gap().prop_map(Entry::Gap),
        1 => any::<(bool, u16, u16, u64)>().prop_map(|(running, lost, losses, transmit_ns)| {
            Entry::DdrClock(DdrClock { running, lost, losses, transmit_ns })
        }),
        1 => Just(Entry::Restart),
        1 => Just(Entry::NoEnd),
    ]
}

fn rows(links: usize) -> impl Strategy<Value = Vec<Row>> {
    let row = (0..links, entry()).prop_map(|(card, entry)| Row { card: CardId(card), entry });
    prop::collection::vec(row, 0..60)
}

fn write(rows: &[Row], mut writer: Box<dyn Writer + '_>) {
    rows.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap();
}

fn read(mut reader: impl Reader) -> Vec<Row> {
    std::iter::from_fn(|| reader.next_row().unwrap()).collect()
}

fn through_parquet(rows: &[Row], name: &str) -> (Vec<Row>, SerializedFileReader<File>) {
    through_parquet_as(Encodings::default(), rows, name)
}

fn through_parquet_as(
    encodings: Encodings,
    rows: &[Row],
    name: &str,
) -> (Vec<Row>, SerializedFileReader<File>) {
    let path = scratch(name);
    let writer = ParquetWriter::with_encodings(File::create(&path).unwrap(), encodings);
    write(rows, Box::new(writer.unwrap()));
    let open = || File::open(&path).unwrap();
    (read(ParquetReader::new(open()).unwrap()), SerializedFileReader::new(open()).unwrap())
}

/// Reduces a row to what CSV can express, see `table::csv`.
fn reduced_to_csv(mut row: Row) -> Row {
    match &mut row.entry {
        Entry::Gap(gap) => {
            gap.first_frame = None;
            gap.after_time = gap.after_time.filter(|_| gap.after_packet.is_some());
            gap.before_time = gap.before_time.filter(|_| gap.before_packet.is_some());
        }
        Entry::DdrClock(clock) => {
            clock.transmit_ns %= 1 << 40;
            clock.transmit_ns -= clock.transmit_ns % 1000;
            clock.lost = if clock.running { clock.lost.min(1) } else { 1 };
        }
        _ => {}
    }
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parquet_returns_rows_in_their_order(rows in rows(1)) {
        prop_assert_eq!(through_parquet(&rows, "rows.parquet").0, rows);
    }

    #[test]
    fn small_encodings_return_rows_in_their_order(rows in rows(2)) {
        let back = through_parquet_as(Encodings::Small, &rows, "small.parquet").0;
        prop_assert_eq!(back.len(), rows.len());
        for link in 0..2 {
            let card_rows = |rows: &[Row]| {
                rows.iter().filter(|row| row.card == CardId(link)).copied().collect::<Vec<_>>()
            };
            prop_assert_eq!(card_rows(&back), card_rows(&rows));
        }
    }

    #[test]
    fn columns_have_only_encodings_that_every_reader_decodes(rows in rows(2)) {
        let file = through_parquet(&rows, "compatible.parquet").1;
        let columns = file.metadata().row_groups().iter().flat_map(|group| group.columns());
        for encoding in columns.flat_map(|column| column.encodings()) {
            let is_old = matches!(
                encoding,
                Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE | Encoding::RLE_DICTIONARY
            );
            prop_assert!(is_old, "{:?}", encoding);
        }
    }

    #[test]
    fn parquet_returns_rows_of_accesses_in_their_order(
        accesses in prop::collection::vec((0u32..1 << 20, any::<u64>(), any::<bool>()), 1..700),
        shifts in (0u32..21, 0u32..64),
        first in number(),
    ) {
        let mut clock = first / 2;
        let row = |(pause, address, write): (u32, u64, bool)| {
            clock += u64::from(pause >> shifts.0);
            let (direction, address) = (Direction::from_bit(write), PhysAddr(address >> shifts.1));
            let entry = Access { clock: Cycles(clock), direction, address }.into();
            Row { card: CardId(0), entry }
        };
        let first: Vec<Row> = accesses.into_iter().map(row).collect();
        let second = first.iter().map(|row| Row { card: CardId(1), ..*row });
        let rows: Vec<Row> = first.iter().copied().chain(second).collect();
        let (back, compatible) = through_parquet(&rows, "accesses.parquet");
        prop_assert_eq!(back, rows.clone());
        let (back, file) = through_parquet_as(Encodings::Small, &rows, "accesses-small.parquet");
        prop_assert_eq!(back, rows);
        let addresses = || first.iter().map(|row| row.entry.access().unwrap().address.0);
        let bytes = |address: Option<u64>| address.unwrap().to_le_bytes();
        // The first group of a short trace is encoded more simply.
        for (group, encoding, file) in [
            (0, Encoding::PLAIN, &file),
            (1, Encoding::BYTE_STREAM_SPLIT, &file),
            (0, Encoding::PLAIN, &compatible),
            (1, Encoding::PLAIN, &compatible),
        ] {
            let column = file.metadata().row_group(group).column(4);
            prop_assert!(column.encodings().any(|used| used == encoding));
            let statistics = column.statistics().unwrap();
            prop_assert_eq!(statistics.min_bytes_opt().unwrap(), bytes(addresses().min()));
            prop_assert_eq!(statistics.max_bytes_opt().unwrap(), bytes(addresses().max()));
        }
    }

    #[test]
    fn parquet_returns_the_rows_of_each_link_in_their_order(rows in rows(3)) {
        let back = through_parquet(&rows, "links.parquet").0;
        prop_assert_eq!(back.len(), rows.len());
        for link in 0..3 {
            let card_rows = |rows: &[Row]| {
                rows.iter().filter(|row| row.card == CardId(link)).copied().collect::<Vec<_>>()
            };
            prop_assert_eq!(card_rows(&back), card_rows(&rows));
        }
    }

    #[test]
    fn clocks_ascend_in_each_session_as_the_metadata_states(rows in rows(2)) {
        let file = through_parquet(&rows, "ascending.parquet").1;
        let mut last = std::collections::BTreeMap::new();
        for row in file.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let columns: Vec<_> = row.get_column_iter().map(|(_, field)| field.clone()).collect();
            let [parquet::record::Field::UInt(session), parquet::record::Field::Long(clock), ..] =
                columns[..]
            else {
                panic!("{columns:?}");
            };
            let before = last.insert(session, clock);
            prop_assert!(before.is_none_or(|before| before <= clock));
        }
    }

    #[test]
    fn json_lines_return_rows(rows in rows(3)) {
        let mut bytes = Vec::new();
        write(&rows, Box::new(JsonlWriter::new(&mut bytes).unwrap()));
        prop_assert_eq!(read(JsonlReader::new(Cursor::new(bytes))), rows);
    }

    #[test]
    fn csv_returns_the_fields_that_it_has(rows in rows(3)) {
        let rows: Vec<Row> = rows.into_iter().map(reduced_to_csv).collect();
        let mut bytes = Vec::new();
        write(&rows, Box::new(CsvWriter::new(&mut bytes).unwrap()));
        prop_assert_eq!(read(CsvReader::new(Cursor::new(bytes)).unwrap()), rows);
    }
}

#[test]
fn a_long_trace_has_row_groups_that_a_query_can_skip() {
    const ROWS: u64 = 2_500_000;
    let clocks: Vec<u64> = (0..ROWS).map(|row| 3 * row).collect();
    let addresses: Vec<u64> = (0..ROWS).map(|row| row << 6).collect();
    let writes: Vec<bool> = (0..ROWS).map(|row| row.is_multiple_of(5)).collect();
    let path = scratch("long.parquet");
    let mut writer: Box<dyn Writer> =
        Box::new(ParquetWriter::new(File::create(&path).unwrap()).unwrap());
    let accesses = Accesses { clocks: &clocks, addresses: &addresses, writes: &writes };
    writer.accesses(CardId(0), accesses).unwrap();
    writer.finish().unwrap();

    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let groups = file.metadata().row_groups();
    assert_eq!(
        groups.iter().map(|group| group.num_rows()).collect::<Vec<_>>(),
        [1 << 20, 1 << 20, 2_500_000 - (2 << 20)]
    );
    let mut end = 0i64;
    for group in groups {
        assert_eq!(group.sorting_columns().map(Vec::len), Some(2));
        let statistics = group.column(1).statistics().unwrap();
        let bound = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(bound(statistics.min_bytes_opt().unwrap()), end);
        end += 3 * group.num_rows();
        assert_eq!(bound(statistics.max_bytes_opt().unwrap()), end - 3);
    }
    let expected = accesses.iter().map(|access| Row { card: CardId(0), entry: access.into() });
    assert!(read(ParquetReader::new(File::open(&path).unwrap()).unwrap()).into_iter().eq(expected));
}

#[test]
fn a_clock_beyond_the_range_of_parquet_is_rejected() {
    let path = scratch("far.parquet");
    let mut writer = ParquetWriter::new(File::create(path).unwrap()).unwrap();
    let (clock, direction, address) = (Cycles(1 << 63), Direction::Read, PhysAddr(0));
    let entry = Access { clock, direction, address }.into();
    let error = writer.row(&Row { card: CardId(0), entry }).unwrap_err();
    assert!(error.to_string().contains("beyond 2^63"));
    let (clocks, addresses, writes) = (&[1 << 63][..], &[0][..], &[false][..]);
    assert!(writer.accesses(CardId(0), Accesses { clocks, addresses, writes }).is_err());
}
