//! Fuzzes the decoder of frames from several cards. Each frame is counted once, and the counts of
//! one card add up.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("trace"),
    |bytes: &[u8]| hmtt_fuzz::targets::trace::check(bytes)
);
