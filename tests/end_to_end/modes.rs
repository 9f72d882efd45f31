//! Compares line, page and frequency mode with records that are computed independently from the
//! truth files.

use hmtt_format::config::slice_clocks;
use hmtt_tests::{DDR1, accesses, header_number};

use crate::captures::{decode, lines, replay};
use crate::models;

fn recorded(name: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    replay(name, options, &file);
    decode(&file)
}

/// Returns the vectors without faults. A fault would end a line's merge and a page's run.
fn legal() -> impl Iterator<Item = &'static str> {
    DDR1.into_iter().filter(|name| !name.ends_with("faults"))
}

#[test]
fn line_granularity_merges_the_bursts_of_a_line() {
    for name in legal() {
        let text = recorded(name, &["--granularity", "line"]);
        let expected = models::lines(&accesses(name), header_number(name, "burst_bytes"));
        assert_eq!(lines(&text), expected, "{name}");
    }
}

#[test]
fn page_mode_reports_runs() {
    for name in legal() {
        let text = recorded(name, &["--mode", "page"]);
        assert_eq!(lines(&text), models::pages(&accesses(name)), "{name}");
    }
}

/// Parses `clock F length reads writes [partial]` of every slice.
fn reported_slices(text: &str) -> Vec<(u64, u64, u64)> {
    let slice = |line: &&str| {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields[1], "F", "{line}");
        let number = |field: usize| fields[field].parse::<u64>().unwrap();
        (number(0), number(3), number(4))
    };
    lines(text).iter().map(slice).collect()
}

#[test]
fn frequency_mode_counts_per_slice() {
    for (name, slice, code) in [
        ("v19_ddr1_bl4_open_same_row", "1us", 0),
        ("v04_ddr1_medium_closed_bl4", "5us", 2),
        ("v08_ddr1_litedram", "10us", 3),
        ("v05_ddr1_medium_rtl", "100us", 6),
        ("v03_ddr1_medium_open", "1ms", 9),
        ("v07_ddr1_selfrefresh_open", "1s", 18),
    ] {
        let text = recorded(name, &["--mode", "frequency", "--slice", slice]);
        let tck_ps = if name.starts_with("v04") { 7_500 } else { 10_000 };
        let length = slice_clocks(code, tck_ps).into();
        assert_eq!(reported_slices(&text), models::slices(&accesses(name), length), "{name}");
    }
}

#[test]
fn frequency_can_be_combined_with_line_mode() {
    let name = "v08_ddr1_litedram";
    let text = recorded(name, &["--granularity", "burst", "--frequency", "--slice", "10us"]);
    let (slices, bursts): (Vec<&str>, Vec<&str>) =
        lines(&text).into_iter().partition(|line| line.contains(" F "));
    let expected: Vec<String> = accesses(name).iter().map(ToString::to_string).collect();
    assert_eq!(bursts, expected);
    assert_eq!(reported_slices(&slices.join("\n")), models::slices(&accesses(name), 1000));
}
