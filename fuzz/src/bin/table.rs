//! Any table is read to what is wrong with it; its rows come back from every format that holds them.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("table"),
    |bytes: &[u8]| hmtt_fuzz::targets::table::check(bytes)
);
