//! Fuzzes the reader of tag maps. Names are those of the JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("tag_map"),
    |bytes: &[u8]| hmtt_fuzz::targets::tag_map::check(bytes)
);
