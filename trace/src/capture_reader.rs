//! Reads a capture file packet by packet, and decodes each packet on request.
//!
//! This module connects `pcapng` with `decode`. A file that continues a series has the card's last
//! report from the files before it, in an interface comment ([`crate::decode::earlier_report`]).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::decode::{LinkCounts, Links, Origin, Sink, earlier_report};
use crate::identity::{CardId, LinkId};
use crate::link_layer::{self, LinkFrame, link_type::ETHERNET};
use crate::pcapng::{Interface, Packet, PcapngReader, ReadError, Reading, Source};

/// Reads one capture and decodes its packets.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// use hmtt::CardId;
/// use hmtt::capture_reader::CaptureReader;
/// use hmtt::decode::Item;
///
/// let mut reader = CaptureReader::from_reader(CAPTURE)?;
/// let mut faults = 0;
/// let mut sink = |_card: CardId, item: Item| {
///     faults += usize::from(matches!(item, Item::Event(hmtt_format::Event::Fault { .. })));
/// };
/// while let Some(mut packet) = reader.next_packet()? {
///     packet.decode(&mut sink);
/// }
/// let counts = reader.finish(&mut sink);
/// assert_eq!((faults, counts.sum().accesses), (1, 4));
/// # Ok(())
/// # }
/// ```
pub struct CaptureReader<R: Read = File> {
    reader: PcapngReader<Source<R>>,
    links: Links,
    /// Number of interfaces whose comments have been searched for an earlier report.
    described: usize,
    /// Number of packets whose link type is not supported.
    unknown_packets: u64,
    /// Memory for a frame that is assembled from parts of a packet.
    frame: Vec<u8>,
}

/// Counts of the parts of a capture that this reader cannot use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Blocks of other types than packets, interfaces, statistics and names.
    pub skipped_blocks: u64,
    /// Packets of link types other than Ethernet, Linux cooked, loopback and IP.
    pub unknown_packets: u64,
}

impl Unread {
    /// Sentences for people, one for each count that is not 0.
    pub fn in_words(&self) -> Vec<String> {
        let Unread { skipped_blocks, unknown_packets } = *self;
        let texts = [
            (unknown_packets, ["packet has a link type", "packets have a link type"]),
            (skipped_blocks, ["block has a type", "blocks have a type"]),
        ];
        let texts = texts.into_iter().filter(|(count, _)| *count > 0);
        texts
            .map(|(count, [singular, plural])| {
                format!("{count} {} that is not read", if count == 1 { singular } else { plural })
            })
            .collect()
    }
}

/// A packet that has been read and is not decoded yet.
pub struct UndecodedPacket<'a> {
    /// The packet as the file states it: its bytes, arrival time and interface.
    pub packet: Packet<'a>,
    links: &'a mut Links,
    unknown_packets: &'a mut u64,
    frame: &'a mut Vec<u8>,
}

impl UndecodedPacket<'_> {
    /// Decodes the packet. `sink` gets the items of its frame, and the items of earlier frames that
    /// waited for this frame.
    pub fn decode(&mut self, sink: &mut impl Sink) {
        let packet = &self.packet;
        let interface = packet.interfaces.get(packet.interface);
        let link_type = interface.map_or(ETHERNET, |interface| interface.link_type);
        let bytes = match link_layer::frame(link_type, packet.bytes, self.frame) {
            LinkFrame::Ethernet(bytes) => bytes,
            LinkFrame::Other => &[],
            LinkFrame::Unknown => {
                *self.unknown_packets += 1;
                &[]
            }
        };
        self.links.push(origin(packet), bytes, sink);
    }

    /// The link of each card that was found so far, by card number.
    pub fn cards(&self) -> &[LinkId] {
        self.links.cards()
    }
}

impl CaptureReader {
    /// Opens a file, to be read once.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened or read, or it is no capture.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        CaptureReader::open_as(path, Reading::Once)
    }

    /// Opens a file, to be read as `reading` states.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened or read, or it is no capture.
    pub fn open_as(path: &Path, reading: Reading) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::open_as(path, reading)?))
    }

    /// Reads a file that is open already, such as a pipe.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, is a terminal, or is no capture.
    pub fn stream(file: File) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::stream(file)?))
    }

    /// Continues to read an open file. `begin`: its first bytes, which were already read.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, or is no capture.
    pub fn stream_after(begin: Vec<u8>, file: File) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::stream_after(begin, file)?))
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads from any reader.
    ///
    /// # Errors
    /// [`ReadError`]: the reader fails, or its bytes are no capture.
    pub fn from_reader(reader: R) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::from_reader(reader)?))
    }

    fn new(reader: PcapngReader<Source<R>>) -> Self {
        let (links, frame) = (Links::default(), Vec::new());
        CaptureReader { reader, links, described: 0, unknown_packets: 0, frame }
    }

    /// Reads the next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, or its next block is damaged.
    pub fn next_packet(&mut self) -> Result<Option<UndecodedPacket<'_>>, ReadError> {
        let CaptureReader { reader, links, described, unknown_packets, frame } = self;
        let Some(packet) = reader.next_packet()? else { return Ok(None) };
        while let Some(interface) = packet.interfaces.get(*described) {
            apply_earlier_report(links, *described, interface);
            *described += 1;
        }
        Ok(Some(UndecodedPacket { packet, links, unknown_packets, frame }))
    }

    /// Decodes the frames that still wait for others, and ends the trace of each card. Returns the
    /// counts of each card.
    pub fn finish(&mut self, sink: &mut impl Sink) -> LinkCounts {
        std::mem::take(&mut self.links).finish(sink)
    }

    /// The link of a card. `None` before the card's first frame, and after
    /// [`CaptureReader::finish`].
    pub fn link_of(&self, card: CardId) -> Option<LinkId> {
        self.links.cards().get(card.0).copied()
    }

    /// The interfaces that were described in the blocks read so far.
    pub fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces()
    }

    /// Counts of the parts that were not used so far.
    pub fn unread(&self) -> Unread {
        let skipped_blocks = self.reader.skipped_blocks();
        Unread { skipped_blocks, unknown_packets: self.unknown_packets }
    }

    /// Byte offset of a last block that is incomplete; `None` if the file ends with a whole block.
    pub fn truncated_at(&self) -> Option<u64> {
        self.reader.truncated_at()
    }
}

/// If the comments of an interface have an earlier report, passes it to the interface's link.
fn apply_earlier_report(links: &mut Links, number: usize, interface: &Interface) {
    let report = earlier_report::from_comments(&interface.comments);
    if let (Some(report), Ok(link)) = (report, number.try_into()) {
        links.continue_from(LinkId(link), report);
    }
}

fn origin(packet: &Packet<'_>) -> Origin {
    Origin {
        packet: packet.number,
        offset: packet.offset,
        time: packet.time,
        link: LinkId(packet.interface.try_into().unwrap_or(u16::MAX)),
    }
}
