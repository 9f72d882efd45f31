//! Any bytes are a frame of a card, an unreadable one or none, as the document has it.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("frame"),
    |bytes: &[u8]| hmtt_fuzz::targets::frame::check(bytes)
);
