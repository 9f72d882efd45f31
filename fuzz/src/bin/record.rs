//! Any words are the records that a plain reading finds, up to the first bad one, however they are read.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("record"),
    |bytes: &[u8]| hmtt_fuzz::targets::record::check(bytes)
);
