//! Fuzzes the controller's readers of shared memory that a traced process may overwrite with anything.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("shared"),
    |bytes: &[u8]| hmtt_fuzz::targets::shared::check(bytes)
);
