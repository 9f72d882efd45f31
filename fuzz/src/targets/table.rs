//! Checks that any table is read up to its first error, and that its rows are the same after
//! writing them in every format.

use hmtt::table::csv::{CsvReader, CsvWriter};
use hmtt::table::hmtt6::{Hmtt6Reader, MmioHole, RECORD_BYTES, Record};
use hmtt::table::jsonl::{JsonlReader, JsonlWriter};
use hmtt::table::{Reader, Row, Writer};

/// First byte of an input with comma-separated values.
pub const CSV: u8 = b'c';
/// First byte of an input with JSON lines.
pub const JSONL: u8 = b'j';
/// First byte of an input with 6-byte records.
pub const RECORDS: u8 = b'r';

/// Reads an input in the format that the first byte selects.
pub fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let rows = match *kind {
        CSV => CsvReader::new(rest).map_or(Vec::new(), |reader| rows(reader, rest.len())),
        JSONL => rows(JsonlReader::new(rest), rest.len()),
        RECORDS => return records(rest),
        _ => return,
    };
    let object = jsonl(&rows);
    assert_eq!(
        self::rows(JsonlReader::new(&object[..]), object.len()),
        rows,
        "JSON lines hold all"
    );
    // Comma-separated values omit fields of two kinds of rows. Without these fields the rows are
    // equal.
    let text = csv(&rows);
    let read = self::rows(CsvReader::new(&text[..]).expect("it has a heading"), text.len());
    assert_eq!(String::from_utf8_lossy(&csv(&read)), String::from_utf8_lossy(&text));
    assert_eq!(read.len(), rows.len());
    assert!(text.iter().all(|byte| *byte == b'\n' || !byte.is_ascii_control()));
}

/// Reads the rows of a table up to the first error. Checks that there are no more rows than the
/// length of the table allows.
pub fn rows(mut reader: impl Reader, length: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Ok(Some(row)) = reader.next_row() {
        rows.push(row);
        assert!(rows.len() <= length, "a row takes a byte at least");
    }
    rows
}

fn all(mut writer: impl Writer, rows: &[Row]) {
    rows.iter().for_each(|row| writer.row(row).expect("memory takes all"));
    Box::new(writer).finish().expect("memory takes all");
}

/// Writes rows as comma-separated values.
pub fn csv(rows: &[Row]) -> Vec<u8> {
    let mut text = Vec::new();
    all(CsvWriter::new(&mut text).expect("memory takes all"), rows);
    text
}

/// Writes rows as JSON lines.
pub fn jsonl(rows: &[Row]) -> Vec<u8> {
    let mut text = Vec::new();
    all(JsonlWriter::new(&mut text).expect("memory takes all"), rows);
    text
}

/// Checks that each record that is not empty is an access at the sum of the durations so far.
fn records(bytes: &[u8]) {
    let mut clock = 0u64;
    let mut expected = Vec::new();
    for record in bytes.chunks_exact(RECORD_BYTES) {
        let record = Record::decode(record.try_into().expect("it has six bytes"));
        let is_empty = record.duration == 0 && record.line == 0;
        clock += if is_empty { 256 } else { u64::from(record.duration) };
        if !is_empty {
            expected.push((clock, u64::from(record.line) * 64, record.read));
        }
    }
    let read = rows(Hmtt6Reader::new(bytes, MmioHole { base: 0 }), bytes.len());
    let access = |row: &Row| {
        let access = row.entry.access()?;
        let is_read = access.direction == hmtt_format::Direction::Read;
        Some((access.clock.0, access.address.0, is_read))
    };
    let read: Vec<_> = read.iter().filter_map(access).collect();
    assert_eq!(read, expected);
}
