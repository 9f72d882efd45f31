//! Reads the fields of blocks, in the byte order of their section.
//!
//! Each block begins with its type and its length, and ends with its length again. A section header
//! states the byte order of its section, including its own. Only the fields on which the packets
//! and their times depend are checked.

use super::options::Options;

/// Bytes of the shortest block: type and length at its beginning, and the length again at its end.
pub const MIN_BLOCK_BYTES: usize = 12;
/// Type of a Section Header Block, the same in both byte orders.
pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Type of an Interface Description Block.
pub const INTERFACE_DESCRIPTION: u32 = 1;
/// Type of an obsolete Packet Block.
pub const OBSOLETE_PACKET: u32 = 2;
/// Type of a Simple Packet Block.
pub const SIMPLE_PACKET: u32 = 3;
/// Type of a Name Resolution Block.
pub const NAME_RESOLUTION: u32 = 4;
/// Type of an Interface Statistics Block.
pub const INTERFACE_STATISTICS: u32 = 5;
/// Type of an Enhanced Packet Block.
pub const ENHANCED_PACKET: u32 = 6;
/// Byte offset of a block's own fields.
pub const FIELDS_AT: usize = 8;
/// Byte offset of a block's length.
const LENGTH_AT: usize = 4;
/// Bytes of a section header's fields: magic, version and length of the section.
const SECTION_HEADER_FIELDS: usize = 16;
/// Byte offset of an Enhanced Packet Block's data: after interface, two words of time and two
/// lengths.
const ENHANCED_DATA_AT: usize = FIELDS_AT + 20;
/// Byte offset of a Simple Packet Block's data: after the length on the wire.
const SIMPLE_DATA_AT: usize = FIELDS_AT + 4;
/// Byte-order magic after the length of a Section Header Block.
const MAGIC: u32 = 0x1a2b_3c4d;
/// Reason for rejecting a block that has no space for its fields.
const TOO_SHORT: &str = "it is too short for its fields";

/// Fields of a packet's block, and the position of the packet's data in the block.
pub struct PacketLocation {
    /// Number of the interface in the section.
    pub interface: usize,
    /// Arrival time in the interface's ticks; `None` for a Simple Packet Block, which has no time.
    pub ticks: Option<u64>,
    /// Length of the packet on the wire, in bytes.
    pub original_len: u32,
    /// Byte offset of the data in the block.
    pub at: usize,
    /// Length of the data in bytes.
    pub length: usize,
}

/// Reads fields of blocks in the byte order of their section. A field beyond the end of its block
/// is 0.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Whether the section is in big-endian byte order.
    pub big_endian: bool,
}

impl Fields {
    /// The byte order of a block. A section header states its own byte order; any other block has
    /// the byte order of its section. `bytes`: at least the first [`MIN_BLOCK_BYTES`] of the block.
    pub fn of_block(self, bytes: &[u8]) -> Self {
        let big = Fields { big_endian: true };
        match self.u32(bytes, 0) {
            SECTION_HEADER => Fields { big_endian: big.u32(bytes, FIELDS_AT) == MAGIC },
            _ => self,
        }
    }

    /// The 16-bit field at byte offset `at`.
    pub fn u16(self, block: &[u8], at: usize) -> u16 {
        let bytes = array(block, at).unwrap_or_default();
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// The 32-bit field at byte offset `at`.
    pub fn u32(self, block: &[u8], at: usize) -> u32 {
        let bytes = array(block, at).unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// Decodes a 64-bit value.
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }

    /// The timestamp at byte offset `at`: two 32-bit words, the high one first in either byte
    /// order.
    pub fn time(self, block: &[u8], at: usize) -> u64 {
        u64::from(self.u32(block, at)) << 32 | u64::from(self.u32(block, at + size_of::<u32>()))
    }

    /// The length in bytes that a block states at its begin. `bytes`: at least the first
    /// [`MIN_BLOCK_BYTES`] of the block.
    pub fn block_length(self, bytes: &[u8]) -> usize {
        (self.of_block(bytes).u32(bytes, LENGTH_AT) as usize).max(MIN_BLOCK_BYTES)
    }

    /// The options of a block. `fields`: bytes of the block's own fields, which precede the
    /// options.
    ///
    /// # Errors
    /// The reason as a text, if the block is too short for the fields.
    pub fn options(self, block: &[u8], fields: usize) -> Result<Options<'_>, &'static str> {
        let options = block.get(FIELDS_AT + fields..end(block)).ok_or(TOO_SHORT)?;
        Ok(Options::new(self.big_endian, options))
    }

    /// Checks that a block states the same valid length at both ends. `block`: as many bytes as the
    /// first length states.
    pub fn check_lengths(self, block: &[u8]) -> Result<(), &'static str> {
        if self.u32(block, end(block)) as usize != block.len() {
            return Err("the lengths at its ends differ");
        }
        if !block.len().is_multiple_of(size_of::<u32>()) {
            return Err("its length is no multiple of 4");
        }
        Ok(())
    }

    /// Checks the fields of a Section Header Block. Its options are not checked.
    pub fn check_section_header(self, block: &[u8]) -> Result<(), &'static str> {
        if end(block) < FIELDS_AT + SECTION_HEADER_FIELDS {
            return Err(TOO_SHORT);
        }
        match self.u32(block, FIELDS_AT) {
            MAGIC => Ok(()),
            _ => Err("its byte-order magic is invalid"),
        }
    }

    /// Parses a Simple Packet Block. Its data extends to the end of the block.
    pub fn simple_packet(self, block: &[u8]) -> Result<PacketLocation, &'static str> {
        let length = end(block).checked_sub(SIMPLE_DATA_AT).ok_or(TOO_SHORT)?;
        let original_len = self.u32(block, FIELDS_AT);
        Ok(PacketLocation { interface: 0, ticks: None, original_len, at: SIMPLE_DATA_AT, length })
    }

    /// Parses an obsolete Packet Block. It is like an Enhanced Packet Block, but its interface
    /// number has 16 bits and is followed by a count of drops.
    pub fn obsolete_packet(self, block: &[u8]) -> Result<PacketLocation, &'static str> {
        let interface = self.u16(block, FIELDS_AT).into();
        Ok(PacketLocation { interface, ..self.enhanced_packet(block)? })
    }

    /// Parses an Enhanced Packet Block. Its options are not read.
    pub fn enhanced_packet(self, block: &[u8]) -> Result<PacketLocation, &'static str> {
        let field = |index: usize| self.u32(block, FIELDS_AT + index * size_of::<u32>());
        let length = field(3) as usize;
        let end = end(block);
        if self.u32(block, end) as usize != block.len() {
            return Err("the lengths at its ends differ");
        }
        if end.checked_sub(ENHANCED_DATA_AT).is_none_or(|available| length > available) {
            return Err("it is too short for its packet");
        }
        Ok(PacketLocation {
            interface: field(0) as usize,
            ticks: Some(self.time(block, FIELDS_AT + size_of::<u32>())),
            original_len: field(4),
            at: ENHANCED_DATA_AT,
            length,
        })
    }
}

/// The offset of the length at the end of a block.
fn end(block: &[u8]) -> usize {
    block.len() - size_of::<u32>()
}

/// The bytes at offset `at`; `None` if they extend beyond the end of the block.
fn array<const N: usize>(block: &[u8], at: usize) -> Option<[u8; N]> {
    block.get(at..at + N).and_then(|bytes| bytes.first_chunk()).copied()
}
