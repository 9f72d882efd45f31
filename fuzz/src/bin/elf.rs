//! Any file is a program whose functions lie apart and inside its instructions, or it is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("elf"),
    |bytes: &[u8]| hmtt_fuzz::targets::elf::check(bytes)
);
