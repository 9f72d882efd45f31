//! Checks that any file is read as a Parquet table or rejected, and that written rows are read
//! back.

use std::fs::File;
use std::io::{Read, Seek, Write};

use hmtt::table::parquet::{ParquetReader, ParquetWriter};
use hmtt::table::{Reader, Row, Writer};
use rustix::fs::{MemfdFlags, memfd_create};

/// Maximum number of rows that are read. A few bytes can stand for any number of equal rows.
const MAX_ROWS: usize = 1 << 12;

fn memory_file() -> File {
    memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("there is memory").into()
}

/// Reads any file. Checks that the rows are the same after they are written and read again.
pub fn check(bytes: &[u8]) {
    let mut file = memory_file();
    file.write_all(bytes).expect("memory takes all");
    let Some(rows) = read(file) else { return };
    assert_eq!(read(write_file(&rows)), Some(rows));
}

/// Reads the rows up to the first error; `None` if the file is no table.
fn read(file: File) -> Option<Vec<Row>> {
    let mut reader = ParquetReader::new(file).ok()?;
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() < MAX_ROWS
        && let Ok(Some(row)) = reader.next_row()
    {
        rows.push(row);
    }
    // A row group contains rows of one card, so rows of several cards are read back in another
    // order.
    let first = rows.first().map(|row| row.card);
    rows.retain(|row| Some(row.card) == first && is_held(row));
    Some(rows)
}

/// Whether the format can hold a row: its clock must be below 2^63, because the column of clocks is
/// signed. A restart is a row too, and begins another row group.
fn is_held(row: &Row) -> bool {
    row.entry.clock().is_none_or(|clock| clock.0 < 1 << 63)
}

fn write_file(rows: &[Row]) -> File {
    let file = memory_file();
    let output = file.try_clone().expect("there are few files");
    let mut writer = Box::new(ParquetWriter::new(output).expect("memory takes all"));
    rows.iter().for_each(|row| writer.row(row).expect("it is held"));
    writer.finish().expect("memory takes all");
    file
}

/// Returns the bytes of a table with these rows.
pub fn written(rows: &[Row]) -> Vec<u8> {
    let (mut file, mut bytes) = (write_file(rows), Vec::new());
    file.rewind().expect("it is memory");
    file.read_to_end(&mut bytes).expect("it is memory");
    bytes
}
