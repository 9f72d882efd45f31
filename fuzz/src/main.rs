//! Fuzzes the target that the environment variable `HMTT_FUZZ_TARGET` names.
#![no_main]

use std::sync::OnceLock;

use hmtt_fuzz::targets::{self, Check};

static TARGET: OnceLock<Check> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("HMTT_FUZZ_TARGET").unwrap_or_default();
        let Some(check) = targets::check(&name) else {
            eprintln!("HMTT_FUZZ_TARGET={name}: it names one of {}", targets::names().join(", "));
            std::process::exit(2);
        };
        hmtt::table::parquet::hide_caught_panics();
        hmtt_fuzz::seeds::write(&name);
        TARGET.get_or_init(|| check);
    },
    |bytes: &[u8]| TARGET.get().expect("libFuzzer initialises first")(bytes)
);
