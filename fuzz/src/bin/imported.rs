//! Fuzzes the readers of what other programs have recorded as text.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("imported"),
    |bytes: &[u8]| hmtt_fuzz::targets::imported::check(bytes)
);
