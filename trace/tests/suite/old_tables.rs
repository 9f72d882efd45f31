//! Tests that tables of version 1, whose columns and keys had other names, are read with the same
//! content.
//!
//! `old_tables/version-1.*` were written by `hmtt convert` of that version from a capture with an
//! item of every kind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hmtt::CardId;
use hmtt::table::csv::{CsvReader, CsvWriter};
use hmtt::table::jsonl::{JsonlReader, JsonlWriter};
use hmtt::table::parquet::ParquetReader;
use hmtt::table::{Reader, Row, Writer};

/// The names of version 1 in JSON lines, and the names of today.
const KEYS: [(&str, &str); 12] = [
    ("duration", "duration_clocks"),
    ("length", "duration_clocks"),
    ("frames", "missing_frames"),
    ("first_frame", "first_counter"),
    ("records", "card_lost_records"),
    ("damaged_frames", "malformed_frames"),
    ("accesses", "lost_accesses"),
    ("after", "after_clock"),
    ("before", "before_clock"),
    ("after_time", "after_time_seconds"),
    ("before_time", "before_time_seconds"),
    ("transmit_nanos", "transmit_ns"),
];

fn path(extension: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_tables");
    folder.join("version-1").with_extension(extension)
}

fn text(extension: &str) -> String {
    fs::read_to_string(path(extension)).unwrap()
}

fn rows(mut reader: impl Reader) -> Vec<Row> {
    std::iter::from_fn(|| reader.next_row().unwrap()).collect()
}

fn written<'a>(rows: &[Row], mut writer: Box<dyn Writer + 'a>) {
    rows.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap();
}

#[test]
fn json_lines_of_version_1_have_the_same_rows() {
    let old = text("jsonl");
    let mut bytes = Vec::new();
    let rows = rows(JsonlReader::new(old.as_bytes()));
    written(&rows, Box::new(JsonlWriter::new(&mut bytes).unwrap()));
    let mut expected = old.replace("\"lost\":", "\"new_losses\":");
    expected = expected.replace("\"address\":\"", "\"address\":\"0x");
    for (old, new) in KEYS {
        let key = format!("\"{old}\":");
        assert!(expected.contains(&key), "no {key}");
        expected = expected.replace(&key, &format!("\"{new}\":"));
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

/// A line of CSV whose address, or offset of a tag or register of a mark, has the prefix of today.
fn with_prefix(line: &str) -> String {
    let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
    if !fields[3].is_empty() && fields[3] != "address" {
        fields[3].insert_str(0, "0x");
    }
    if ["tag", "mark"].contains(&fields[0].as_str()) {
        fields[7].insert_str(0, "0x");
    }
    fields.join(",") + "\n"
}

#[test]
fn csv_of_version_1_has_the_same_rows() {
    let old = text("csv");
    let mut bytes = Vec::new();
    let rows = rows(CsvReader::new(old.as_bytes()).unwrap());
    written(&rows, Box::new(CsvWriter::new(&mut bytes).unwrap()));
    let expected = old.replace(",duration,", ",duration_clocks,");
    let expected = expected.replace("damaged frames", "malformed frames");
    let expected: String = expected.lines().map(with_prefix).collect();
    assert_ne!(expected, old);
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn parquet_of_version_1_has_the_rows_of_the_json_lines() {
    let reader = ParquetReader::new(File::open(path("parquet")).unwrap()).unwrap();
    let cards: Vec<CardId> = reader.cards().map(|(card, _)| card).collect();
    assert_eq!(cards, [CardId(0); 2]);
    assert_eq!(rows(reader), rows(JsonlReader::new(text("jsonl").as_bytes())));
}
