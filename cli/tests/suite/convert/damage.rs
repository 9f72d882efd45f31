//! Tests that damaged files cause an error or other rows, but never a panic.

use std::fs::{self, File};
use std::io::Cursor;

use hmtt::table::Reader;
use hmtt::table::csv::CsvReader;
use hmtt::table::jsonl::JsonlReader;
use hmtt::table::parquet::ParquetReader;
use proptest::prelude::*;

use super::samples::everything;
use super::{converted, output};
use crate::{capture_file, scratch};

fn read(mut reader: impl Reader) {
    while let Ok(Some(_)) = reader.next_row() {}
}

fn file(extension: &str) -> Vec<u8> {
    let capture = capture_file(&format!("damage-{extension}.pcapng"), &everything());
    let path = output("whole", extension);
    converted(&capture, &path);
    fs::read(path).unwrap()
}

#[test]
fn damaged_files_do_not_panic() {
    let damage = (any::<prop::sample::Index>(), any::<u8>(), any::<prop::sample::Index>());
    for extension in ["csv", "jsonl", "parquet"] {
        let whole = file(extension);
        let path = scratch(&format!("damaged.{extension}"));
        let config =
            ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let result = runner.run(&(damage.clone(), any::<bool>()), |((at, value, end), cut)| {
            let mut bytes = whole.clone();
            bytes[at.index(whole.len())] ^= value;
            if cut {
                bytes.truncate(end.index(whole.len()));
            }
            match extension {
                "csv" => CsvReader::new(Cursor::new(bytes)).map(read).unwrap_or_default(),
                "jsonl" => read(JsonlReader::new(Cursor::new(bytes))),
                _ => {
                    fs::write(&path, bytes).unwrap();
                    let reader = ParquetReader::new(File::open(&path).unwrap());
                    reader.map(read).unwrap_or_default();
                }
            }
            Ok(())
        });
        result.unwrap();
    }
}
