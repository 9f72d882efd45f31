//! Reads frames with their arrival times from the blocks of a pcapng file.
//!
//! Reads a stream block by block and knows the byte offset of each block. A file that ends within a block is read up to
//! the block before and reported as truncated; an invalid block is an error. Enhanced Packet Blocks, nearly all of a
//! capture, are parsed here: the library allocates a vector of options for each, which takes several times as long. All
//! other blocks are parsed by the library.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use byteorder_slice::{BigEndian, LittleEndian};
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{Endianness, PcapError};

use super::Interface;
use super::error::ReadError;
use super::interface::Interfaces;
use super::source::{Buffer, MAX_BLOCK_BYTES, Reading, Source};

/// Bytes of the shortest block: type and length at its beginning, and the length again at its end.
const MIN_BLOCK_BYTES: usize = 12;
/// Byte offset of a block's length.
const LENGTH_AT: usize = 4;
/// The option `opt_endofopt`, which ends a list of options but may be absent.
const END_OF_OPTIONS: [u8; 4] = [0; 4];
/// Byte offset of a block's own fields.
const FIELDS_AT: usize = 8;
/// Type of an Enhanced Packet Block.
const ENHANCED_PACKET: u32 = 6;
/// Byte offset of an Enhanced Packet Block's data: after interface, two words of time and two lengths.
const ENHANCED_DATA_AT: usize = FIELDS_AT + 20;
/// Byte offset of a Simple Packet Block's data: after the length on the wire.
const SIMPLE_DATA_AT: usize = FIELDS_AT + 4;
/// Type of a Section Header Block, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = 0x0a0d_0d0a_u32.to_be_bytes();
/// Byte-order magic after the length of a Section Header Block, in big-endian sections.
const BIG_ENDIAN_MAGIC: [u8; 4] = 0x1a2b_3c4d_u32.to_be_bytes();

/// A frame in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of the packet in the file, from 1.
    pub number: u64,
    /// Byte offset of the packet's block in the uncompressed file.
    pub offset: u64,
    /// Index of the packet's interface in [`PcapngReader::interfaces`]; beyond its end if the capture does not describe the
    /// interface.
    pub interface: usize,
    /// Arrival time since the Unix epoch; `None` if the file does not state it.
    pub time: Option<Duration>,
    /// Length of the frame on the wire, in bytes.
    pub original_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The interfaces that the capture has described so far.
    pub interfaces: &'a [Interface],
}

/// A reader of one capture.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// let mut reader = hmtt::pcapng::PcapngReader::from_reader(CAPTURE)?;
/// let mut lengths = Vec::new();
/// while let Some(packet) = reader.next_packet()? {
///     lengths.push(packet.bytes.len());
/// }
/// assert_eq!(lengths, [66, 322]);
/// assert_eq!(reader.interfaces()[0].name.as_deref(), Some("eth1"));
/// # Ok(())
/// # }
/// ```
pub struct PcapngReader<R> {
    buffer: Buffer<R>,
    packets: u64,
    big_endian: bool,
    interfaces: Interfaces,
    truncated: bool,
}

impl PcapngReader<Source> {
    /// Opens a file, compressed with zstd or not, to be read once.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened or read, or it is no pcapng file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        PcapngReader::open_as(path, Reading::Once)
    }

    /// Opens a file, to be read as `reading` states.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened or read, or it is no pcapng file.
    pub fn open_as(path: &Path, reading: Reading) -> Result<Self, ReadError> {
        PcapngReader::new(Source::open(path, reading).map_err(ReadError::Open)?)
    }

    /// Reads a file that is open already, such as a pipe, compressed with zstd or not.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, is a terminal, or is no pcapng file.
    pub fn stream(file: File) -> Result<Self, ReadError> {
        PcapngReader::new(Source::stream(file).map_err(ReadError::Open)?)
    }
}

impl<R: Read> PcapngReader<Source<R>> {
    /// Reads from any reader, compressed with zstd or not.
    ///
    /// # Errors
    /// [`ReadError`]: the reader fails, or its bytes are no pcapng file.
    pub fn from_reader(reader: R) -> Result<Self, ReadError> {
        PcapngReader::new(Source::from_reader(reader).map_err(ReadError::Open)?)
    }
}

impl<R: Read> PcapngReader<R> {
    /// Starts to read uncompressed pcapng: reads the section header.
    ///
    /// # Errors
    /// [`ReadError`]: the source cannot be read, or it does not begin with a section header.
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut buffer = Buffer::new(source);
        loop {
            let more = buffer.fill()?;
            let bytes = buffer.bytes();
            if !bytes.starts_with(&SECTION_HEADER) && (bytes.len() >= SECTION_HEADER.len() || !more)
            {
                let reason = "it does not begin with a section header".into();
                return Err(ReadError::NotPcapng { reason });
            }
            match PcapNgParser::new(bytes) {
                Ok((rest, parser)) => {
                    let length = bytes.len() - rest.len();
                    buffer.take(length);
                    return Ok(PcapngReader {
                        buffer,
                        packets: 0,
                        big_endian: matches!(parser.section().endianness, Endianness::Big),
                        interfaces: Interfaces::default(),
                        truncated: false,
                    });
                }
                Err(PcapError::IncompleteBuffer) if more && bytes.len() < MAX_BLOCK_BYTES => {}
                Err(error) => return Err(ReadError::NotPcapng { reason: error.to_string() }),
            }
        }
    }

    /// The next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, or the next block is invalid.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        let (offset, found) = loop {
            let Some(length) = self.whole_block()? else { return Ok(None) };
            let offset = self.buffer.offset();
            let begin = self.buffer.take(length);
            let found = match self.fields() {
                fields if fields.u32(self.buffer.taken(begin), 0) == ENHANCED_PACKET => {
                    let found = fields.enhanced_packet(self.buffer.taken(begin));
                    Some(found.map_err(|reason| damaged(offset, reason))?)
                }
                _ => self.block(begin, offset)?,
            };
            if let Some(found) = found {
                break (offset, PacketLocation { at: begin + found.at, ..found });
            }
        };
        self.packets += 1;
        let PacketLocation { interface, ticks, original_len, at, length } = found;
        let interface = self.interfaces.index(interface);
        let time = ticks.and_then(|ticks| self.interfaces.all().get(interface)?.time(ticks));
        let bytes = self.buffer.bytes_at(at, length);
        let (number, interfaces) = (self.packets, self.interfaces.all());
        Ok(Some(Packet { number, offset, interface, time, original_len, bytes, interfaces }))
    }

    /// The interfaces that the blocks read so far describe. Interfaces of the same name in several sections are one.
    pub fn interfaces(&self) -> &[Interface] {
        self.interfaces.all()
    }

    /// The byte offset at which a last, incomplete block begins; `None` if the file ends with a whole block.
    pub fn truncated_at(&self) -> Option<u64> {
        (self.truncated || self.buffer.is_cut()).then_some(self.buffer.offset())
    }

    fn fields(&self) -> Fields {
        Fields { big_endian: self.big_endian }
    }

    /// Makes sure a whole block is in the buffer and returns its length; `None` at the end.
    fn whole_block(&mut self) -> Result<Option<usize>, ReadError> {
        loop {
            let bytes = self.buffer.bytes();
            let needed = if bytes.len() < MIN_BLOCK_BYTES {
                MIN_BLOCK_BYTES
            } else {
                self.fields().block_length(bytes)
            };
            if needed > MAX_BLOCK_BYTES {
                let reason = format!("it states a length of {needed} bytes");
                return Err(damaged(self.buffer.offset(), reason));
            }
            if bytes.len() >= needed {
                return Ok(Some(needed));
            }
            if !self.buffer.fill()? {
                self.truncated = !self.buffer.bytes().is_empty();
                return Ok(None);
            }
        }
    }

    /// Parses a block through the library and stores what it states. Returns the packet of a Simple Packet Block.
    fn block(&mut self, begin: usize, offset: u64) -> Result<Option<PacketLocation>, ReadError> {
        let bytes = self.buffer.taken(begin);
        let ended;
        let block = match parse(bytes, self.big_endian) {
            // Options may end with the block (draft-ietf-opsawg-pcapng, 3.5), but the library requires `opt_endofopt`.
            Err(error) if matches!(error, PcapError::InvalidField(_)) => {
                ended = with_end(bytes);
                parse(&ended, self.big_endian).map_err(|_| damaged(offset, error))?
            }
            other => other.map_err(|error| damaged(offset, error))?,
        };
        match block {
            Block::SimplePacket(packet) => {
                // Its data begin after the original length.
                let at = SIMPLE_DATA_AT;
                let length = packet.data.len();
                let original_len = packet.original_len;
                return Ok(Some(PacketLocation {
                    interface: 0,
                    ticks: None,
                    original_len,
                    at,
                    length,
                }));
            }
            Block::SectionHeader(header) => {
                self.big_endian = matches!(header.endianness, Endianness::Big);
                self.interfaces.section();
            }
            Block::InterfaceDescription(description) => {
                let described = self.interfaces.describe(&description);
                described.map_err(|reason| damaged(offset, reason))?;
            }
            Block::InterfaceStatistics(statistics) => {
                self.interfaces.note(&statistics, self.big_endian);
            }
            _ => {}
        }
        Ok(None)
    }
}

/// The fields of a packet's block, and the place of its data in the buffer.
struct PacketLocation {
    interface: usize,
    ticks: Option<u64>,
    original_len: u32,
    at: usize,
    length: usize,
}

/// Reads fields of blocks in the byte order of their section.
#[derive(Clone, Copy)]
struct Fields {
    big_endian: bool,
}

impl Fields {
    /// The 32-bit field at byte offset `at`; 0 beyond the end of the block.
    fn u32(self, block: &[u8], at: usize) -> u32 {
        let bytes = block.get(at..at + size_of::<u32>()).and_then(|bytes| bytes.first_chunk());
        let Some(&bytes) = bytes else { return 0 };
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// The length that a block states, in bytes. A section header states its own byte order.
    fn block_length(self, bytes: &[u8]) -> usize {
        let is_section = bytes.starts_with(&SECTION_HEADER);
        let big_endian = match bytes.get(LENGTH_AT + 4..LENGTH_AT + 8) {
            Some(magic) if is_section => magic == BIG_ENDIAN_MAGIC,
            _ => self.big_endian,
        };
        (Fields { big_endian }.u32(bytes, LENGTH_AT) as usize).max(MIN_BLOCK_BYTES)
    }

    /// Parses an Enhanced Packet Block, without its options.
    fn enhanced_packet(self, block: &[u8]) -> Result<PacketLocation, &'static str> {
        let field = |index: usize| self.u32(block, FIELDS_AT + index * size_of::<u32>());
        let length = field(3) as usize;
        let end = block.len() - size_of::<u32>();
        if self.u32(block, end) as usize != block.len() {
            return Err("the lengths at its ends differ");
        }
        if end.checked_sub(ENHANCED_DATA_AT).is_none_or(|available| length > available) {
            return Err("it is too short for its packet");
        }
        Ok(PacketLocation {
            interface: field(0) as usize,
            ticks: Some(u64::from(field(1)) << 32 | u64::from(field(2))),
            original_len: field(4),
            at: ENHANCED_DATA_AT,
            length,
        })
    }
}

fn damaged(offset: u64, reason: impl ToString) -> ReadError {
    ReadError::Damaged { offset, reason: reason.to_string() }
}

/// Parses a block by the library's block parser. Its file parser would keep a copy of every interface description.
fn parse(bytes: &[u8], big_endian: bool) -> Result<Block<'_>, PcapError> {
    let parsed = match big_endian {
        true => Block::from_slice::<BigEndian>(bytes),
        false => Block::from_slice::<LittleEndian>(bytes),
    };
    Ok(parsed?.1)
}

/// The same block with `opt_endofopt` after its options. `bytes`: at least [`MIN_BLOCK_BYTES`].
fn with_end(bytes: &[u8]) -> Vec<u8> {
    let stated = &bytes[LENGTH_AT..FIELDS_AT];
    let length = (bytes.len() + END_OF_OPTIONS.len()) as u32;
    // A section header may be in the other byte order.
    let length = match (bytes.len() as u32).to_le_bytes() == stated {
        true => length.to_le_bytes(),
        false => length.to_be_bytes(),
    };
    let rest = &bytes[FIELDS_AT..bytes.len() - length.len()];
    [&bytes[..LENGTH_AT], &length, rest, &END_OF_OPTIONS, &length].concat()
}
