//! Fuzzes the reader of profiles of `hmtt monitor`, and their reports.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("profile"),
    |bytes: &[u8]| hmtt_fuzz::targets::profile::check(bytes)
);
