//! Fuzzes the reader of program files. Functions do not overlap and lie within the file's code, or
//! the file is rejected.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("elf"),
    |bytes: &[u8]| hmtt_fuzz::targets::elf::check(bytes)
);
