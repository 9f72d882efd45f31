//! Fuzzes the reader of Parquet tables. Rows that were read are the same after they are written and
//! read again.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        hmtt::table::parquet::hide_caught_panics();
        hmtt_fuzz::seeds::write("parquet")
    },
    |bytes: &[u8]| hmtt_fuzz::targets::parquet::check(bytes)
);
