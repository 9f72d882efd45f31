//! Fuzzes the reader of captures. It returns the packets that an independent library returns, up to the last whole
//! block.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("pcapng"),
    |bytes: &[u8]| hmtt_fuzz::targets::pcapng::check(bytes)
);
