//! The blocks of a pcapng file to frames with their arrival times.
//!
//! Reads a stream block by block and knows the byte offset of each. A file that ends within a block
//! is read to the block before and said to be truncated; a block that makes no sense is an error.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{Endianness, PcapError};

use super::Interface;

const READ_BYTES: usize = 1 << 20;
/// Longest block that is believed; Wireshark's limit.
const MAX_BLOCK_BYTES: usize = 16 << 20;
/// Type and length, which open every block.
const BLOCK_HEADER_BYTES: usize = 8;
/// Type of a section header, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = 0x0a0d_0d0a_u32.to_be_bytes();
/// What follows the length of a section header in big-endian sections.
const BIG_ENDIAN_MAGIC: [u8; 4] = 0x1a2b_3c4d_u32.to_be_bytes();

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read the capture at offset {offset}")]
    Read {
        /// Byte offset reached.
        offset: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It does not begin as pcapng files do.
    #[error(
        "not a pcapng file ({reason}); if it is a capture of another format, convert it: editcap -F pcapng IN OUT"
    )]
    NotPcapng {
        /// What is wrong.
        reason: String,
    },
    /// A block makes no sense.
    #[error("block at offset {offset} is damaged: {reason}")]
    Damaged {
        /// Byte offset of the block.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
}

/// A frame in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number in the file, from 1.
    pub number: u64,
    /// Byte offset of its block.
    pub offset: u64,
    /// Arrival, since the epoch; none where the file does not say.
    pub time: Option<Duration>,
    /// Bytes on the wire.
    pub original_len: u32,
    /// Bytes captured.
    pub bytes: &'a [u8],
}

/// Reads one capture.
pub struct PcapngReader<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    at_end: bool,
    offset: u64,
    packets: u64,
    parser: PcapNgParser,
    interfaces: Vec<Interface>,
    truncated: bool,
}

impl PcapngReader<File> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Read { offset: 0, source })?;
        PcapngReader::new(file)
    }
}

impl<R: Read> PcapngReader<R> {
    /// Reads the section header.
    pub fn new(mut source: R) -> Result<Self, ReadError> {
        let mut buffer = Vec::new();
        loop {
            let at_end = fill(&mut source, &mut buffer, 0)?;
            if !buffer.starts_with(&SECTION_HEADER) {
                let reason = "it does not begin with a section header".into();
                return Err(ReadError::NotPcapng { reason });
            }
            match PcapNgParser::new(&buffer) {
                Ok((rest, parser)) => {
                    let start = buffer.len() - rest.len();
                    return Ok(PcapngReader {
                        source,
                        start,
                        buffer,
                        at_end,
                        offset: start as u64,
                        packets: 0,
                        parser,
                        interfaces: Vec::new(),
                        truncated: false,
                    });
                }
                Err(PcapError::IncompleteBuffer) if !at_end && buffer.len() < MAX_BLOCK_BYTES => {}
                Err(error) => return Err(ReadError::NotPcapng { reason: error.to_string() }),
            }
        }
    }

    /// The next frame; `None` at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        let (begin, offset) = loop {
            let Some(length) = self.whole_block()? else { return Ok(None) };
            let (begin, offset) = (self.start, self.offset);
            self.start += length;
            self.offset += length as u64;
            if self.block(begin, offset)? {
                break (begin, offset);
            }
        };
        self.packets += 1;
        let (_, block) = self
            .parser
            .next_block(&self.buffer[begin..self.start])
            .map_err(|error| damaged(offset, error))?;
        let (interface, time, original_len, data) = match block {
            Block::EnhancedPacket(packet) => {
                let ticks = packet.timestamp.as_nanos() as u64;
                (packet.interface_id as usize, Some(ticks), packet.original_len, packet.data)
            }
            Block::SimplePacket(packet) => (0, None, packet.original_len, packet.data),
            _ => return Err(damaged(offset, "not a packet")),
        };
        let bytes = match data {
            std::borrow::Cow::Borrowed(bytes) => bytes,
            std::borrow::Cow::Owned(_) => return Err(damaged(offset, "not in one piece")),
        };
        let time = time.and_then(|ticks| self.interfaces.get(interface)?.time(ticks));
        Ok(Some(Packet { number: self.packets, offset, time, original_len, bytes }))
    }

    /// What the capture says of its interfaces; complete once all packets were read.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The byte offset at which a last, incomplete block begins.
    pub fn truncated_at(&self) -> Option<u64> {
        self.truncated.then_some(self.offset)
    }

    /// Makes sure a whole block is in the buffer and returns its length; `None` at the end.
    fn whole_block(&mut self) -> Result<Option<usize>, ReadError> {
        loop {
            let bytes = &self.buffer[self.start..];
            let needed = if bytes.len() < BLOCK_HEADER_BYTES + size_of::<u32>() {
                BLOCK_HEADER_BYTES + size_of::<u32>()
            } else {
                self.block_length(bytes)
            };
            if needed > MAX_BLOCK_BYTES {
                return Err(damaged(self.offset, format!("it states a length of {needed} bytes")));
            }
            if bytes.len() >= needed {
                return Ok(Some(needed));
            }
            if self.at_end {
                self.truncated = !bytes.is_empty();
                return Ok(None);
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            self.at_end = fill(&mut self.source, &mut self.buffer, self.offset)?;
        }
    }

    fn block_length(&self, bytes: &[u8]) -> usize {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            word
        };
        let big = if word(0) == SECTION_HEADER {
            word(BLOCK_HEADER_BYTES) == BIG_ENDIAN_MAGIC
        } else {
            matches!(self.parser.section().endianness, Endianness::Big)
        };
        let length = word(4);
        let length = if big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        (length as usize).max(BLOCK_HEADER_BYTES + size_of::<u32>())
    }

    /// Notes what a block says; whether it is a packet comes back.
    fn block(&mut self, begin: usize, offset: u64) -> Result<bool, ReadError> {
        let (_, block) = self
            .parser
            .next_block(&self.buffer[begin..self.start])
            .map_err(|error| damaged(offset, error))?;
        match block {
            Block::EnhancedPacket(_) | Block::SimplePacket(_) => return Ok(true),
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(description) => {
                self.interfaces.push(Interface::new(&description));
            }
            Block::InterfaceStatistics(statistics) => {
                if let Some(interface) = self.interfaces.get_mut(statistics.interface_id as usize) {
                    interface.note(&statistics);
                }
            }
            _ => {}
        }
        Ok(false)
    }
}

/// Appends some of the source to the buffer; whether the source has ended comes back.
fn fill(source: &mut impl Read, buffer: &mut Vec<u8>, offset: u64) -> Result<bool, ReadError> {
    let read = source
        .by_ref()
        .take(READ_BYTES as u64)
        .read_to_end(buffer)
        .map_err(|source| ReadError::Read { offset, source })?;
    Ok(read < READ_BYTES)
}

fn damaged(offset: u64, reason: impl ToString) -> ReadError {
    ReadError::Damaged { offset, reason: reason.to_string() }
}
