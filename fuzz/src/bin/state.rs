//! Fuzzes the reader of states of analyses.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("state"),
    |bytes: &[u8]| hmtt_fuzz::targets::state::check(bytes)
);
