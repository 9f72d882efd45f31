//! Any bytes are a tag log or none; its events are those that a plain reading finds, and each is counted once.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("tag_log"),
    |bytes: &[u8]| hmtt_fuzz::targets::tag_log::check(bytes)
);
