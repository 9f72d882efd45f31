//! Any file is a tag map or refused; its names are those that its JSON has.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("tag_map"),
    |bytes: &[u8]| hmtt_fuzz::targets::tag_map::check(bytes)
);
