//! Readers of tables.

use std::fs::File;

use hmtt_test_support::names::{assert_documented, assert_json_documented};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;

use super::*;

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}

/// The line of text that states the same as a row of CSV.
fn as_text(line: &str) -> String {
    let row = fields(line);
    let [
        thread,
        pc,
        direction,
        address,
        size,
        elements,
        downwards,
        conditional,
        _,
        function,
        object,
    ] = &row[..]
    else {
        panic!("{line}")
    };
    let [pc, address] = [pc, address].map(|text| text.trim_start_matches("0x"));
    let address = if address.is_empty() { "?" } else { address };
    let down = if downwards == "true" { "-" } else { "" };
    let elements = if elements == "1" { String::new() } else { format!("*{elements}") };
    let conditional = if conditional == "true" { " ?" } else { "" };
    let file = object.rsplit('/').next().unwrap();
    let function = match (function.as_str(), file) {
        ("", "") => String::new(),
        ("", file) => format!(" in [{file}]"),
        (function, _) => format!(" in {function}"),
    };
    format!("{thread} {pc} {direction} {address} {down}{size}{elements}{conditional}{function}")
}

#[test]
fn tables_have_the_accesses_of_the_text() {
    let Some(Sample { file, text, .. }) = &*SAMPLE else { return };
    let outputs = ["csv", "jsonl", "parquet"].map(|to| converted(file, to, &[]).0);
    let [csv, json] = [0, 1].map(|index| outputs[index].text());
    let (heading, rows) = csv.split_once('\n').unwrap();
    assert_documented("CSV", heading.split(','));
    let expected = || text.lines().filter(|line| !line.starts_with('#'));
    assert!(rows.lines().map(as_text).eq(expected().map(str::to_owned)));
    let thread = text.split(' ').next().unwrap();
    for options in [&["--thread", thread][..], &[]] {
        let same =
            hmtt(&[&["decode", "--format", "csv", file.to_str().unwrap()], options].concat());
        assert!(same.stdout == csv.as_bytes());
    }
    assert_eq!(json.lines().count(), expected().count());
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_json_documented("JSON lines", &first);

    let table = File::open(&*outputs[2]).unwrap();
    let table = SerializedFileReader::new(table).unwrap();
    let metadata = table.metadata().file_metadata();
    assert_documented("Parquet", metadata.schema_descr().columns().iter().map(|it| it.name()));
    assert_eq!(metadata.num_rows() as usize, expected().count());
    for (row, line) in table.get_row_iter(None).unwrap().zip(rows.lines()) {
        let (row, fields) = (row.unwrap(), fields(line));
        assert_eq!(row.get_ulong(1).unwrap(), number(&fields[1]));
        assert_eq!(row.get_bool(2).unwrap(), fields[2] == "W");
        let address = row.get_ulong(3).map(|address| format!("{address:#x}")).unwrap_or_default();
        assert_eq!(address, fields[3]);
        let function = row.get_string(9).cloned().unwrap_or_default();
        assert_eq!(function, fields[9]);
    }
}
