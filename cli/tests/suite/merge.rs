//! Tests `hmtt merge`: the time bases that it prints, and the trace that it writes.

use hmtt_test_support::clocks::{FAST, STEADY, capture};

use crate::scratch;

#[test]
fn the_command_prints_the_time_bases_and_writes_one_trace() {
    let paths = [capture("merge-g", STEADY, true), capture("merge-h", FAST, true)];
    let names: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let output = crate::hmtt(&["merge", names[0], names[1], "--format", "csv"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("merge-g.pcapng: eth1, card 1: the reference; clock 0 becomes 0"));
    assert!(lines[1].contains("by 30 shared marks; clock 0 becomes -"), "{lines:?}");
    assert!(lines[1].contains("error at most 101 clocks (1011 ns)"), "{lines:?}");
    let csv = String::from_utf8(output.stdout).unwrap();
    assert_eq!(csv.lines().filter(|line| line.starts_with("access,")).count(), 2 * 20 * 600);
    // The merged trace can be read, and the clocks of accesses do not decrease.
    let clocks: Vec<u64> = csv
        .lines()
        .filter(|line| line.starts_with("access,"))
        .map(|line| line.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(clocks.is_sorted());

    let table = scratch("merged.parquet");
    let output =
        crate::hmtt(&["merge", names[0], names[1], "--json", "-o", table.to_str().unwrap()]);
    let bases: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(
        bases["sessions"][1]["basis"],
        serde_json::json!({"by": "marks", "shared_marks": 30})
    );
    let back = scratch("merged.csv");
    let output = crate::hmtt(&["convert", table.to_str().unwrap(), back.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    // A table has the rows of a card together.
    let sorted = |csv: &str| {
        let mut rows: Vec<String> =
            csv.lines().filter(|row| row.starts_with("access,")).map(str::to_owned).collect();
        rows.sort();
        rows
    };
    assert!(sorted(&std::fs::read_to_string(back).unwrap()) == sorted(&csv));

    let wrong = crate::hmtt(&["merge", names[0], "--offset", "0=5"]);
    assert_eq!(wrong.status.code(), Some(2));
    let own = crate::hmtt(&["merge", names[0], "-f", "-o", names[0]]);
    assert_eq!(own.status.code(), Some(1));
}

#[test]
fn lines_that_name_cards_become_a_column_as_documented() {
    let page = include_str!("../../../docs/merge.md");
    let (_, script) = page.split_once("\nawk '").expect("a script");
    let (script, _) = script.split_once("' card=1 merged.csv\n").expect("its end");
    let paths = [capture("merge-i", STEADY, true), capture("merge-j", FAST, true)];
    let merged = scratch("merged-turns.csv");
    let [first, other, output] = [&paths[0], &paths[1], &merged].map(|path| path.to_str().unwrap());
    assert_eq!(crate::hmtt(&["merge", first, other, "-o", output]).status.code(), Some(0));
    let awk = std::process::Command::new("awk").args([script, "card=1", output]).output();
    let awk = match awk {
        Ok(awk) => String::from_utf8(awk.stdout).unwrap(),
        Err(error) => return crate::skipped(format_args!("awk: {error}")),
    };
    assert!(awk.starts_with("card,kind,clock,"));
    let count =
        |card: &str| awk.lines().filter(|row| row.starts_with(&format!("{card},access,"))).count();
    assert_eq!((count("1"), count("2")), (20 * 600, 20 * 600));
    assert!(!awk.contains("\ncard,"));
}
