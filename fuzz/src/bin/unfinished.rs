//! A tag that was interrupted anywhere is finished as if it had not been, and any other code is none.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: hmtt_fuzz::seeds::write("unfinished"),
    |bytes: &[u8]| hmtt_fuzz::targets::unfinished::check(bytes)
);
