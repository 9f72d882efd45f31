//! Any file is a Parquet table of a trace or refused; its rows survive being written.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("parquet"),
    |bytes: &[u8]| hmtt_fuzz::targets::parquet::check(bytes)
);
