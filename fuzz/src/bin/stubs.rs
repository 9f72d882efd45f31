//! Any code is tagged so that it does the same, or refused; what is emitted is judged by a plain reading of it.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("stubs"),
    |bytes: &[u8]| hmtt_fuzz::targets::stubs::check(bytes)
);
