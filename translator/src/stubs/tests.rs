//! Tests that the state of a thread in the stubs is known, or can be reached.

use iced_x86::{Decoder, DecoderOptions};

use super::*;
use crate::emulation::{Fields, Thread};

/// Fields that are all 0.
struct Zero;

impl Fields for Zero {
    fn load(&self, _: u64, _: usize) -> Option<u64> {
        Some(0)
    }

    fn field(&self, _: u64, _: usize) -> Option<u64> {
        Some(0)
    }

    fn set_field(&self, _: u64, _: usize, _: u64) -> Option<()> {
        Some(())
    }
}

#[test]
fn all_instructions_without_a_known_state_can_be_emulated() {
    let section = Stubs::new(true).section;
    let mut decoder = Decoder::with_ip(64, &section.bytes, 0, DecoderOptions::NONE);
    let mut unknown = 0;
    while decoder.can_decode() {
        let at = decoder.ip();
        let instruction = decoder.decode();
        if section.state_at(at as u32).is_none() {
            let mut thread = Thread { general: [0; 16], rip: at };
            let done = thread.execute(&section.bytes[at as usize..], &Zero);
            assert!(done.is_some(), "{instruction} at {at:#x}");
            unknown += 1;
        }
    }
    assert!(unknown > 20, "{unknown}");
}
