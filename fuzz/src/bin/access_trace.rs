//! Fuzzes the reader of traces of accesses.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("access_trace"),
    |bytes: &[u8]| hmtt_fuzz::targets::access_trace::check(bytes)
);
