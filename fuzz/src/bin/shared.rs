//! Whatever a traced process writes to its tags' memory, the controller reads what is there, or calls it damage.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("shared"),
    |bytes: &[u8]| hmtt_fuzz::targets::shared::check(bytes)
);
