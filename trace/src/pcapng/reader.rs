//! Reads frames with their arrival times from the blocks of a pcapng file, or from the records of a
//! classic pcap file.
//!
//! The module reads a stream block by block, and knows the byte offset of each block. If a file
//! ends within a block, it is read up to the block before, and reported as truncated. An invalid
//! block is an error. If the packets and their times do not depend on a block, only its lengths are
//! checked. The options of packets and section headers are not read at all.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use super::Interface;
use super::block::{
    ENHANCED_PACKET, Fields, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, MIN_BLOCK_BYTES,
    NAME_RESOLUTION, OBSOLETE_PACKET, PacketLocation, SECTION_HEADER, SIMPLE_PACKET,
};
use super::classic::{self, ClassicPcap};
use super::error::ReadError;
use super::interface::Interfaces;
use super::source::{Buffer, MAX_BLOCK_BYTES, Reading, Source};

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of the packet in the file, from 1.
    pub number: u64,
    /// Byte offset of the packet's block in the uncompressed file.
    pub offset: u64,
    /// Index of the packet's interface in [`PcapngReader::interfaces`]. If the capture does not
    /// describe the interface, the index is beyond the end.
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

/// Reads the packets of one capture.
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
    /// Number of blocks whose types are not read.
    skipped_blocks: u64,
    /// The form of a classic pcap file; `None` for a pcapng file.
    classic: Option<ClassicPcap>,
}

impl PcapngReader<Source> {
    /// Opens a file, compressed or not, to be read once.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened or read, or it is no capture.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        PcapngReader::open_as(path, Reading::Once)
    }

    /// Opens a file, to be read as `reading` states.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened or read, or it is no capture.
    pub fn open_as(path: &Path, reading: Reading) -> Result<Self, ReadError> {
        PcapngReader::new(Source::open(path, reading).map_err(ReadError::Open)?)
    }

    /// Reads a file that is open already, such as a pipe, compressed or not.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, is a terminal, or is no capture.
    pub fn stream(file: File) -> Result<Self, ReadError> {
        PcapngReader::new(Source::stream(file).map_err(ReadError::Open)?)
    }

    /// Continues to read an open file. `begin`: its first bytes, which were already read.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, or is no capture.
    pub fn stream_after(begin: Vec<u8>, file: File) -> Result<Self, ReadError> {
        PcapngReader::new(Source::stream_after(begin, file).map_err(ReadError::Open)?)
    }
}

impl<R: Read> PcapngReader<Source<R>> {
    /// Reads from any reader, compressed or not.
    ///
    /// # Errors
    /// [`ReadError`]: the reader fails, or its bytes are no capture.
    pub fn from_reader(reader: R) -> Result<Self, ReadError> {
        PcapngReader::new(Source::from_reader(reader).map_err(ReadError::Open)?)
    }
}

impl<R: Read> PcapngReader<R> {
    /// Starts to read an uncompressed capture. Reads its section header, or the header of a classic
    /// pcap file.
    ///
    /// # Errors
    /// [`ReadError`]: the source cannot be read, or it does not begin with such a header.
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut reader = PcapngReader {
            buffer: Buffer::new(source),
            packets: 0,
            big_endian: false,
            interfaces: Interfaces::default(),
            truncated: false,
            skipped_blocks: 0,
            classic: None,
        };
        match reader.section_header() {
            Err(ReadError::Damaged { reason, .. }) => Err(ReadError::NotPcapng { reason }),
            read => read.map(|()| reader),
        }
    }

    /// Reads the section header at the beginning.
    fn section_header(&mut self) -> Result<(), ReadError> {
        let start = SECTION_HEADER.to_be_bytes();
        while self.buffer.bytes().len() < start.len() && self.buffer.fill()? {}
        if let Some(classic) = ClassicPcap::new(self.buffer.bytes()) {
            return self.classic_header(classic);
        }
        if self.buffer.is_cut() && self.buffer.bytes().len() < start.len() {
            return Err(damaged(0, "its compressed data end before its first bytes are whole"));
        }
        if !self.buffer.bytes().starts_with(&start) {
            return Err(damaged(0, "it does not begin with a section header"));
        }
        let length = self.whole_block()?;
        let length = length.ok_or_else(|| damaged(0, "it ends within its section header"))?;
        let begin = self.buffer.take(length);
        self.block(begin, 0)?;
        Ok(())
    }

    /// Reads the header of a classic pcap file.
    fn classic_header(&mut self, classic: ClassicPcap) -> Result<(), ReadError> {
        let length = self.whole(classic::HEADER_BYTES, |_| classic::HEADER_BYTES)?;
        let length = length.ok_or_else(|| damaged(0, "it ends within its header"))?;
        let begin = self.buffer.take(length);
        self.interfaces.section();
        self.interfaces.classic(classic.link_type(self.buffer.taken(begin)));
        self.classic = Some(classic);
        Ok(())
    }

    /// Reads the next record of a classic pcap file. Returns its offset in the file, and the
    /// packet's position in the buffer.
    fn record(&mut self, classic: ClassicPcap) -> Result<Option<(u64, PacketLocation)>, ReadError> {
        let length = self.whole(classic::RECORD_BYTES, |bytes| classic.record_length(bytes))?;
        let Some(length) = length else { return Ok(None) };
        let offset = self.buffer.offset();
        let begin = self.buffer.take(length);
        let location = classic.packet(self.buffer.taken(begin));
        Ok(Some((offset, PacketLocation { at: begin + location.at, ..location })))
    }

    /// Reads the next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, or the next block is invalid.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        let (offset, location) = loop {
            if let Some(classic) = self.classic {
                match self.record(classic)? {
                    Some(location) => break location,
                    None => return Ok(None),
                }
            }
            let Some(length) = self.whole_block()? else { return Ok(None) };
            let offset = self.buffer.offset();
            let begin = self.buffer.take(length);
            let location = match self.fields() {
                fields if fields.u32(self.buffer.taken(begin), 0) == ENHANCED_PACKET => {
                    let location = fields.enhanced_packet(self.buffer.taken(begin));
                    Some(location.map_err(|reason| damaged(offset, reason))?)
                }
                _ => self.block(begin, offset)?,
            };
            if let Some(location) = location {
                break (offset, PacketLocation { at: begin + location.at, ..location });
            }
        };
        self.packets += 1;
        let PacketLocation { interface, ticks, original_len, at, length } = location;
        let interface = self.interfaces.index(interface);
        let time = ticks.and_then(|ticks| self.interfaces.all().get(interface)?.time(ticks));
        let bytes = self.buffer.bytes_at(at, length);
        let (number, interfaces) = (self.packets, self.interfaces.all());
        Ok(Some(Packet { number, offset, interface, time, original_len, bytes, interfaces }))
    }

    /// The interfaces that were described in the blocks read so far. Interfaces with the same name
    /// in several sections are one interface.
    pub fn interfaces(&self) -> &[Interface] {
        self.interfaces.all()
    }

    /// Byte offset of a last block that is incomplete; `None` if the file ends with a whole block.
    pub fn truncated_at(&self) -> Option<u64> {
        (self.truncated || self.buffer.is_cut()).then_some(self.buffer.offset())
    }

    /// Number of blocks read so far whose type is not supported. Blocks with names of hosts are not
    /// counted.
    pub fn skipped_blocks(&self) -> u64 {
        self.skipped_blocks
    }

    fn fields(&self) -> Fields {
        Fields { big_endian: self.big_endian }
    }

    /// Reads until a whole block is in the buffer. Returns its length; `None` at the end of the
    /// file.
    fn whole_block(&mut self) -> Result<Option<usize>, ReadError> {
        let fields = self.fields();
        self.whole(MIN_BLOCK_BYTES, |bytes| fields.block_length(bytes))
    }

    /// Reads until a whole block or record is in the buffer. Returns its length; `None` at the end
    /// of the file. `stated`: returns the length that the first `least` bytes state.
    fn whole(
        &mut self,
        least: usize,
        stated: impl Fn(&[u8]) -> usize,
    ) -> Result<Option<usize>, ReadError> {
        loop {
            let bytes = self.buffer.bytes();
            let needed = if bytes.len() < least { least } else { stated(bytes) };
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

    /// Parses a block, and stores the section, interface or statistics that it describes. Returns
    /// the packet if the block is a Simple Packet Block or an obsolete Packet Block.
    fn block(&mut self, begin: usize, offset: u64) -> Result<Option<PacketLocation>, ReadError> {
        let bytes = self.buffer.taken(begin);
        let fields = self.fields().of_block(bytes);
        fields.check_lengths(bytes).map_err(|reason| damaged(offset, reason))?;
        let result = match fields.u32(bytes, 0) {
            SIMPLE_PACKET => {
                let packet = fields.simple_packet(bytes);
                return packet.map(Some).map_err(|reason| damaged(offset, reason));
            }
            OBSOLETE_PACKET => {
                let packet = fields.obsolete_packet(bytes);
                return packet.map(Some).map_err(|reason| damaged(offset, reason));
            }
            SECTION_HEADER => {
                self.big_endian = fields.big_endian;
                self.interfaces.section();
                fields.check_section_header(bytes)
            }
            INTERFACE_DESCRIPTION => self.interfaces.describe(fields, bytes),
            INTERFACE_STATISTICS => self.interfaces.note(fields, bytes),
            NAME_RESOLUTION => Ok(()),
            _ => {
                self.skipped_blocks += 1;
                Ok(())
            }
        };
        result.map(|()| None).map_err(|reason| damaged(offset, reason))
    }
}

fn damaged(offset: u64, reason: impl ToString) -> ReadError {
    ReadError::Damaged { offset, reason: reason.to_string() }
}
