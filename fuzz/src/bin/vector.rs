//! Any recording or description is read whole or refused; what is read is what it says.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("vector"),
    |bytes: &[u8]| hmtt_fuzz::targets::vector::check(bytes)
);
