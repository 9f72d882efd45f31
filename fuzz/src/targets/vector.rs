//! Checks that any recording or description is read completely or rejected.

use std::io::Cursor;
use std::path::Path;

use hmtt_format::info::StaticWords;
use hmtt_format::{MemoryDescription, toml_memory};
use hmtt_sim::fuzz::memories;
use hmtt_sim::input::lines::{Lines, decompress};
use hmtt_sim::input::pin_map::PinMap;
use hmtt_sim::input::vector::VectorReader;
use hmtt_sim::input::{Span, vcd};

/// First byte of an input that is a vector.
pub const VECTOR: u8 = b'v';
/// First byte of an input that is a VCD.
pub const VCD: u8 = b'w';
/// First byte of an input that is a pin map. All other inputs are memory descriptions.
pub const PINS: u8 = b'p';
/// The pin map for VCDs.
pub const PIN_MAP: &str = "clock='ck'\ncke='p.cke'\ncs_n='cs'\nras_n='ras'\ncas_n='cas'\n\
    we_n='we'\nba=['ba0','ba1']\na='a'\n";
/// Maximum number of spans that are read. A compressed file of clocks only is practically endless.
const MAX_SPANS: usize = 1 << 16;

/// Reads an input in the format that the first byte selects.
pub fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match *kind {
        VECTOR => vector(rest),
        VCD => vcd(rest),
        PINS => {
            let _ = PinMap::parse(&String::from_utf8_lossy(rest));
        }
        _ => {
            if let Ok(memory) = toml_memory::parse(&String::from_utf8_lossy(rest)) {
                described(&memory);
            }
        }
    }
}

/// Reads a vector with its own memory description, and with another description instead.
fn vector(bytes: &[u8]) {
    for memory in [None, Some(memories::parse(memories::ALL[0]))] {
        let Ok(reader) = decompress(Cursor::new(bytes.to_vec())) else { return };
        let lines = Lines::new(Path::new("x"), reader);
        let Ok(reader) = VectorReader::new(lines, memory) else { continue };
        described(&reader.header().memory);
        let clocks = reader.header().last_clock + 1;
        if let Some(read) = spans(reader) {
            assert_eq!(read, clocks, "a recording is as long as its header says");
        }
    }
}

fn vcd(bytes: &[u8]) {
    let Ok(reader) = decompress(Cursor::new(bytes.to_vec())) else { return };
    let memory = memories::parse(memories::ALL[0]);
    let pins = PinMap::parse(PIN_MAP).expect("a pin map");
    let Ok(recording) = vcd::open(Path::new("x"), reader, Some(memory), Some(pins)) else { return };
    if let Some(read) = spans(recording.spans) {
        assert!(read > 0);
    }
}

/// Returns the number of clocks of a recording; `None` if it was rejected or is very long. Checks
/// that no span follows the end.
fn spans<E>(mut spans: impl Iterator<Item = Result<Span, E>>) -> Option<u64> {
    let mut clocks = 0u64;
    for _ in 0..MAX_SPANS {
        match spans.next() {
            Some(Ok(span)) => {
                assert_ne!(span.clocks, 0);
                clocks = clocks.checked_add(span.clocks).expect("clocks have 48 bits");
            }
            end => {
                assert!(spans.next().is_none());
                return end.is_none().then_some(clocks);
            }
        }
    }
    None
}

/// Checks that an accepted description can be encoded in a report.
fn described(memory: &MemoryDescription) {
    assert_eq!(memory.check(), Ok(()));
    assert!(StaticWords::new(memory).as_slice().len() > 1);
    assert!(memory.capacity() > 0);
}
