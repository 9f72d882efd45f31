//! Reads the header and the records of classic pcap files, as `tcpdump -w` writes them.
//!
//! Source: draft-ietf-opsawg-pcap. A file has one header, which states the byte order, the
//! resolution of times and the link type. The records follow it. A record has seconds, fraction of
//! a second, captured length, length on the wire, and the captured bytes.

use super::block::{Fields, PacketLocation};

/// First word of a file with times in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// First word of a file with times in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Bytes of the header of a file.
pub const HEADER_BYTES: usize = 24;
/// Byte offset of the link type in the header. The upper half of this word describes check
/// sequences.
const LINK_TYPE_AT: usize = 20;
/// Bytes of a record's header, before the captured bytes.
pub const RECORD_BYTES: usize = 16;

/// The byte order and the resolution of times of a classic pcap file.
#[derive(Clone, Copy, Debug)]
pub struct ClassicPcap {
    fields: Fields,
    nanos_per_fraction: u64,
}

impl ClassicPcap {
    /// Recognises a classic pcap file by its first bytes; `None` for any other file.
    pub fn new(first: &[u8]) -> Option<Self> {
        let first = first.first_chunk::<4>()?;
        [false, true].into_iter().find_map(|big_endian| {
            let fields = Fields { big_endian };
            let nanos_per_fraction = match fields.u32(first, 0) {
                MICROSECONDS => 1000,
                NANOSECONDS => 1,
                _ => return None,
            };
            Some(ClassicPcap { fields, nanos_per_fraction })
        })
    }

    /// The link type that a header states.
    pub fn link_type(self, header: &[u8]) -> u16 {
        self.fields.u32(header, LINK_TYPE_AT) as u16
    }

    /// Bytes of a whole record. `record`: at least its first [`RECORD_BYTES`].
    pub fn record_length(self, record: &[u8]) -> usize {
        RECORD_BYTES + self.fields.u32(record, 8) as usize
    }

    /// The packet in a whole record. Its ticks are nanoseconds, whatever the file's resolution is.
    pub fn packet(self, record: &[u8]) -> PacketLocation {
        let word = |at| u64::from(self.fields.u32(record, at));
        PacketLocation {
            interface: 0,
            ticks: Some(word(0) * 1_000_000_000 + word(4) * self.nanos_per_fraction),
            original_len: self.fields.u32(record, 12),
            at: RECORD_BYTES,
            length: record.len() - RECORD_BYTES,
        }
    }
}
