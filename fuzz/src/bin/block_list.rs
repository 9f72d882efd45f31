//! Fuzzes the reader of lists of executed blocks.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("block_list"),
    |bytes: &[u8]| hmtt_fuzz::targets::block_list::check(bytes)
);
