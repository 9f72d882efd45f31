//! Fuzzes the readers of text tables and records. Rows are the same in every format that can hold them.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("table"),
    |bytes: &[u8]| hmtt_fuzz::targets::table::check(bytes)
);
