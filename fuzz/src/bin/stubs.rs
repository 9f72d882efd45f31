//! Fuzzes the tagging of code. The tagged program does the same as the original one, or the code is rejected.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("stubs"),
    |bytes: &[u8]| hmtt_fuzz::targets::stubs::check(bytes)
);
