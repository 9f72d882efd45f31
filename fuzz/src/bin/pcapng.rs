//! Any file is read to its last whole block or refused; its packets are those the block library sees.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("pcapng"),
    |bytes: &[u8]| hmtt_fuzz::targets::pcapng::check(bytes)
);
