//! Fuzzes the reports of tag logs: tables, stacks and profiles add up, and no name in them forges a
//! line.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("tag_report"),
    |bytes: &[u8]| hmtt_fuzz::targets::tag_report::check(bytes)
);
