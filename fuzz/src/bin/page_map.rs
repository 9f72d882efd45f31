//! Fuzzes the reader of maps of pages, their resolution, and records of page tables.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("page_map"),
    |bytes: &[u8]| hmtt_fuzz::targets::page_map::check(bytes)
);
