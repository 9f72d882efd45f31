//! Any log is told as tables, stacks and timelines that add up, and no name in it forges a line.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("tag_report"),
    |bytes: &[u8]| hmtt_fuzz::targets::tag_report::check(bytes)
);
