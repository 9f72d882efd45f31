//! Any frames are each counted once; what one card sends and the wire loses adds up.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("trace"),
    |bytes: &[u8]| hmtt_fuzz::targets::trace::check(bytes)
);
