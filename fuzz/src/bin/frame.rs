//! Fuzzes the parser of Ethernet frames against a model of the document: a card's frame, an
//! unreadable one or none.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("frame"),
    |bytes: &[u8]| hmtt_fuzz::targets::frame::check(bytes)
);
