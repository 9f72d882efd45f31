//! Checks that the plugin for Wireshark shows the accesses and page runs that `hmtt decode` prints.
//! The plugin was written from `docs/format.md` alone, like the reader in Python.

use std::path::Path;
use std::process::Command;

use hmtt_tests::{has, skip};

use crate::captures::{decode, lines, path, replay};

/// Returns the values of fields that occur together in each frame, one row for each record.
fn rows(fields: &[&str], capture: &Path) -> Vec<Vec<u64>> {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/wireshark/hmtt.lua");
    let mut tshark = Command::new("tshark");
    tshark.args(["-X", &format!("lua_script:{}", path(&plugin)), "-r", path(capture)]);
    tshark.args(["-T", "fields", "-E", "separator=;"]);
    fields.iter().for_each(|field| {
        tshark.args(["-e", field]);
    });
    let output = tshark.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let number = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => value.parse().unwrap(),
    };
    let mut rows = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let columns: Vec<Vec<u64>> = line
            .split(';')
            .map(|values| values.split(',').filter(|v| !v.is_empty()).map(number).collect())
            .collect();
        rows.extend((0..columns[0].len()).map(|row| columns.iter().map(|c| c[row]).collect()));
    }
    rows
}

#[test]
fn the_plugin_for_wireshark_shows_what_hmtt_decodes() {
    if !has("tshark") {
        skip("the_plugin_for_wireshark_shows_what_hmtt_decodes", "tshark is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    let access = ["hmtt.access.clock", "hmtt.access.direction", "hmtt.access.address"];
    for (name, options) in [
        ("v19_ddr1_bl4_open_same_row", &["--granularity", "burst", "--fcs"][..]),
        ("v11_ddr3_xor_open", &["--granularity", "line"]),
        ("v16_ddr1_faults", &["--granularity", "burst", "--frequency", "--slice", "10us"]),
    ] {
        replay(name, options, &file);
        let shown: Vec<String> = rows(&access, &file)
            .iter()
            .map(|row| format!("{} {} {:x}", row[0], ["R", "W"][row[1] as usize], row[2]))
            .collect();
        let text = decode(&file);
        let printed: Vec<&str> =
            lines(&text).into_iter().filter(|line| !line.contains(" F ")).collect();
        assert!(!printed.is_empty());
        assert_eq!(shown, printed, "{name} {options:?}");
    }
    replay("v08_ddr1_litedram", &["--mode", "page"], &file);
    let page = ["clock", "address", "reads", "writes", "duration_clocks"]
        .map(|f| format!("hmtt.page.{f}"));
    let shown: Vec<String> = rows(&page.each_ref().map(String::as_str), &file)
        .iter()
        .map(|row| format!("{} P {:x} {} {} {}", row[0], row[1], row[2], row[3], row[4]))
        .collect();
    assert_eq!(shown, lines(&decode(&file)));
}
