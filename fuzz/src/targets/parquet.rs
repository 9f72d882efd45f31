//! Any file to the rows of a Parquet table, or a refusal; rows that were written come back.

use std::fs::File;
use std::io::{Read, Seek, Write};

use hmtt::table::parquet::{ParquetReader, ParquetWriter};
use hmtt::table::{Reader, Row, Writer};
use rustix::fs::{MemfdFlags, memfd_create};

/// Most rows read: a few bytes can stand for any number of equal ones.
const MAX_ROWS: usize = 1 << 12;

fn memory_file() -> File {
    memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("there is memory").into()
}

/// Reads any file; what is read survives being written and read again.
pub fn check(bytes: &[u8]) {
    let mut file = memory_file();
    file.write_all(bytes).expect("memory takes all");
    let Some(rows) = read(file) else { return };
    assert_eq!(read(file_of(&rows)), Some(rows));
}

/// The rows up to what is wrong; none if it is no table.
fn read(file: File) -> Option<Vec<Row>> {
    let mut reader = ParquetReader::new(file).ok()?;
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() < MAX_ROWS
        && let Ok(Some(row)) = reader.next_row()
    {
        rows.push(row);
    }
    // Row groups are of one card each, so rows of several come back in another order.
    let first = rows.first().map_or(0, |row| row.capture);
    rows.retain(|row| row.capture == first && is_held(row));
    Some(rows)
}

/// Timestamps are signed, and a restart begins another row group.
fn is_held(row: &Row) -> bool {
    row.entry.clock().is_none_or(|clock| clock.0 < 1 << 63)
}

fn file_of(rows: &[Row]) -> File {
    let file = memory_file();
    let output = file.try_clone().expect("there are few files");
    let mut writer = Box::new(ParquetWriter::new(output).expect("memory takes all"));
    rows.iter().for_each(|row| writer.row(row).expect("it is held"));
    writer.finish().expect("memory takes all");
    file
}

/// The bytes of a table of these rows.
pub fn written(rows: &[Row]) -> Vec<u8> {
    let (mut file, mut bytes) = (file_of(rows), Vec::new());
    file.rewind().expect("it is memory");
    file.read_to_end(&mut bytes).expect("it is memory");
    bytes
}
