//! Tests that readers of tables return the accesses of the trace from which the table was written.

use std::io::{Seek, SeekFrom};

use hmtt_files::access_trace::{Access, BlockAccesses, Place};

use super::csv::CsvWriter;
use super::jsonl::JsonlWriter;
use super::*;
use crate::access_trace::{ThreadAccess, Visitor, Writer, visit};

/// A trace with an access of each kind: one by code of no known function, and three by a function
/// with a name that needs quotes.
fn trace() -> Vec<u8> {
    let access = |place, direction| Access {
        pc: 0x1000,
        operation: 0,
        direction,
        represents: 1,
        size: 8,
        conditional: direction == Direction::Write,
        adds_fs: false,
        place,
    };
    let elements = Place::Elements { left: [0, 3], first: 1, pointer: [1, 2] };
    let accesses = vec![
        access(Place::Static(0x5000), Direction::Read),
        access(Place::Unknown, Direction::Write),
    ];
    let code = vec![0x90];
    let plain =
        BlockAccesses { start: 0x1000, instructions: 1, code, accesses, ..Default::default() };
    let accesses = vec![access(elements, Direction::Read)];
    let string = BlockAccesses { function: 1, slots: 4, accesses, ..plain.clone() };
    let (name, path) = ("f(\"a\", b)".into(), "/bin/p".into());
    let units: Vec<u8> = [1, 2, 3, 0x900, 0x8f0, 1u64].map(u64::to_le_bytes).concat();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.functions(&[Function { name, path, ..Function::default() }]).unwrap();
    writer.blocks(&[plain, string]).unwrap();
    writer.units(7, units).unwrap();
    writer.finish(0, 0).unwrap()
}

struct Rows<'w>(Box<dyn AccessWriter + 'w>);

impl Visitor for Rows<'_> {
    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        self.0.access(executed, &access.made).unwrap();
    }
}

fn write(writer: Box<dyn AccessWriter + '_>) {
    let mut rows = Rows(writer);
    visit(&trace()[..], &mut rows).unwrap();
    rows.0.finish().unwrap();
}

#[test]
fn rows_are_lines_of_csv() {
    let mut output = Vec::new();
    write(Box::new(CsvWriter::new(&mut output).unwrap()));
    let expected = "thread,pc,direction,address,size_bytes,elements,downwards,conditional,\
                    represents,function,object
7,0x1000,R,0x5000,8,1,false,false,1,,
7,0x1000,W,,8,1,false,true,1,,
7,0x1000,R,0x900,8,2,true,false,1,\"f(\"\"a\"\", b)\",\"/bin/p\"
";
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}

#[test]
fn rows_are_objects_of_json() {
    let mut output = Vec::new();
    write(Box::new(JsonlWriter::new(&mut output)));
    let text = String::from_utf8(output).unwrap();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |address: Option<&str>, direction, conditional| {
        let mut row = serde_json::json!({
            "thread": 7, "pc": "0x1000", "direction": direction, "size_bytes": 8, "elements": 1,
            "downwards": false, "conditional": conditional, "represents": 1,
        });
        if let Some(address) = address {
            row["address"] = address.into();
        }
        row
    };
    assert_eq!(rows[0], row(Some("0x5000"), "R", false));
    assert_eq!(rows[1], row(None, "W", true));
    let mut last = row(Some("0x900"), "R", false);
    last["elements"] = 2.into();
    last["downwards"] = true.into();
    last["function"] = "f(\"a\", b)".into();
    last["object"] = "/bin/p".into();
    assert_eq!(rows[2..], [last]);
}

#[cfg(feature = "parquet")]
#[test]
fn rows_are_those_of_a_parquet_table() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    let mut file = tempfile::tempfile().unwrap();
    write(Box::new(parquet::ParquetWriter::new(file.try_clone().unwrap()).unwrap()));
    file.seek(SeekFrom::Start(0)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<String> =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    let row = |rest: &str| format!("{{thread: 7, pc: 4096, {rest}}}");
    let expected = [
        row(
            "is_write: false, address: 20480, size_bytes: 8, elements: 1, downwards: false, conditional: false, represents: 1, function: null, object: null",
        ),
        row(
            "is_write: true, address: null, size_bytes: 8, elements: 1, downwards: false, conditional: true, represents: 1, function: null, object: null",
        ),
        row(
            "is_write: false, address: 2304, size_bytes: 8, elements: 2, downwards: true, conditional: false, represents: 1, function: \"f(\"a\", b)\", object: \"/bin/p\"",
        ),
    ];
    assert_eq!(rows, expected);
}

#[cfg(feature = "parquet")]
fn parquet_file(bytes: &[u8]) -> std::fs::File {
    use std::io::Write;

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_table_is_read_as_the_lines_of_text_are() {
    use reader::{RowReader, Rows};

    let (mut lines, mut bytes) = (Vec::new(), Vec::new());
    write(Box::new(JsonlWriter::new(&mut lines)));
    write(Box::new(parquet::ParquetWriter::new(&mut bytes).unwrap()));
    assert!(parquet::is_of_program(&parquet_file(&bytes)).unwrap());
    let all_rows =
        |rows: &mut dyn Rows| std::iter::from_fn(|| rows.next_row().unwrap()).collect::<Vec<_>>();
    let rows = all_rows(&mut parquet::ParquetRows::new(parquet_file(&bytes)).unwrap());
    assert_eq!(rows, all_rows(&mut RowReader::new(&lines[..])));
    assert_eq!(rows.len(), 3);
}

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_tables_are_errors() {
    use reader::Rows;

    let mut whole = Vec::new();
    write(Box::new(parquet::ParquetWriter::new(&mut whole).unwrap()));
    let read = |bytes: &[u8]| -> Result<usize, TableError> {
        let mut rows = parquet::ParquetRows::new(parquet_file(bytes))?;
        let mut count = 0;
        while rows.next_row()?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    assert_eq!(read(&whole).unwrap(), 3);
    let mut errors = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x11;
        errors += usize::from(read(&damaged).is_err());
        // The result may be a table of another kind or no table at all, but there must be no panic.
        let _ = parquet::is_of_program(&parquet_file(&damaged));
    }
    assert!(errors > whole.len() / 10, "{errors}");
    assert!(read(&whole[..whole.len() - 1]).is_err());
}
