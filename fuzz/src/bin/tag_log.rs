//! Fuzzes the reader of tag logs against a simple model of the document. Each event is counted once.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("tag_log"),
    |bytes: &[u8]| hmtt_fuzz::targets::tag_log::check(bytes)
);
