//! The documents list the columns of every table.

use std::path::Path;

use hmtt_dataset::{Kind, Table};
use hmtt_test_support::names::assert_documented;

/// Name and type of the columns that docs/dataset.md lists for a table, without those of all
/// tables.
fn listed(document: &str, table: Table) -> Vec<(String, String)> {
    let heading = format!("\n`{}`, ", table.name());
    let (_, section) = document.split_once(&heading).expect("a section of the table");
    let (_, section) = section.split_once("\n|---|---|---|\n").expect("a list");
    let rows = section.lines().map_while(|line| line.strip_prefix("| `"));
    let columns = rows.flat_map(|row| {
        let mut cells = row.split(" | ");
        let (names, types) = (cells.next().unwrap(), cells.next().unwrap());
        let names: Vec<&str> = names.trim_end_matches('`').split("`, `").collect();
        let types: Vec<&str> = types.split(", ").collect();
        let column_type = |at: usize| types[at.min(types.len() - 1)].to_owned();
        names
            .iter()
            .enumerate()
            .map(|(at, name)| ((*name).to_owned(), column_type(at)))
            .collect::<Vec<_>>()
    });
    columns.collect()
}

#[test]
fn columns_are_those_of_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dataset.md");
    let document = std::fs::read_to_string(path).unwrap();
    for table in Table::ALL {
        let [capture, session, columns @ ..] = table.columns() else { panic!("more columns") };
        assert_eq!((capture.name, session.name), ("capture", "session"));
        let kind = |kind| match kind {
            Kind::Number => "number",
            Kind::Real => "real",
            Kind::Flag => "flag",
            Kind::Text => "text",
            Kind::Time => "time",
        };
        let expected: Vec<_> = columns
            .iter()
            .map(|column| (column.name.to_owned(), kind(column.kind).to_owned()))
            .collect();
        assert_eq!(listed(&document, table), expected, "{}", table.name());
        let names = table.columns().iter().map(|column| column.name);
        assert_documented(table.name(), names.chain(["run", "board", "hour"]));
    }
}
