//! Fuzzes the completion of interrupted tags. The result is that of an uninterrupted tag; other code is not taken for a
//! tag.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("unfinished"),
    |bytes: &[u8]| hmtt_fuzz::targets::unfinished::check(bytes)
);
