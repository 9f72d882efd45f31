//! Fuzzes the check of data sets with files in the places of parts.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        hmtt::table::parquet::hide_caught_panics();
        hmtt_fuzz::seeds::write("part")
    },
    |bytes: &[u8]| hmtt_fuzz::targets::part::check(bytes)
);
