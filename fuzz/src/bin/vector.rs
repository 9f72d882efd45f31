//! Fuzzes the readers of recordings and memory descriptions. What is read has the stated length, or
//! is rejected.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("vector"),
    |bytes: &[u8]| hmtt_fuzz::targets::vector::check(bytes)
);
