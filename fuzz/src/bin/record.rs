//! Fuzzes the decoder of records against a simple model, up to the first invalid record and in every way of reading.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("record"),
    |bytes: &[u8]| hmtt_fuzz::targets::record::check(bytes)
);
