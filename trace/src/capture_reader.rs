//! A capture file to its packets, each with the decoders that it goes through.
//!
//! Joins `pcapng` with `decode`. A file that goes on from others begins with what the card reported
//! before it ([`crate::decode::earlier_report`]).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::decode::{CardSink, LinkCounts, Links, Origin, earlier_report};
use crate::pcapng::{Interface, Packet, PcapngReader, ReadError, Reading, Source};

/// Reads one capture.
pub struct CaptureReader {
    reader: PcapngReader<Source>,
    links: Links,
    /// Interfaces whose comments were looked at.
    described: usize,
}

/// A packet that has been read and not decoded.
pub struct UndecodedPacket<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    links: &'a mut Links,
}

impl UndecodedPacket<'_> {
    /// Decodes it; what it brings goes to `sink`.
    pub fn decode(&mut self, sink: &mut impl CardSink) {
        self.links.push_to(origin(&self.packet), self.packet.bytes, sink);
    }

    /// The link of each card so far.
    pub fn cards(&self) -> &[u16] {
        self.links.cards()
    }
}

impl CaptureReader {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        CaptureReader::open_as(path, Reading::Once)
    }

    /// Opens a file that is read in a certain way.
    pub fn open_as(path: &Path, reading: Reading) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::open_as(path, reading)?))
    }

    /// Reads what is open already, such as a pipe.
    pub fn stream(file: File) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::stream(file)?))
    }

    /// Reads from any reader.
    ///
    /// # Errors
    /// [`ReadError`]: the reader fails, or what it has is no pcapng file.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Result<Self, ReadError> {
        Ok(CaptureReader::new(PcapngReader::from_reader(reader)?))
    }

    fn new(reader: PcapngReader<Source>) -> Self {
        CaptureReader { reader, links: Links::default(), described: 0 }
    }

    /// The next packet; `None` at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<UndecodedPacket<'_>>, ReadError> {
        let CaptureReader { reader, links, described } = self;
        let Some(packet) = reader.next_packet()? else { return Ok(None) };
        while let Some(interface) = packet.interfaces.get(*described) {
            apply_earlier_report(links, *described, interface);
            *described += 1;
        }
        Ok(Some(UndecodedPacket { packet, links }))
    }

    /// Decodes what still waits and closes all traces.
    pub fn finish(&mut self, sink: &mut impl CardSink) -> LinkCounts {
        std::mem::take(&mut self.links).finish_to(sink)
    }

    /// The link of a card, which is the number of its interface; none before the card's first frame.
    pub fn link_of(&self, card: usize) -> Option<u16> {
        self.links.cards().get(card).copied()
    }

    /// What the file says of its interfaces, as far as it was read.
    pub fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces()
    }

    /// The byte offset at which a last, incomplete block begins.
    pub fn truncated_at(&self) -> Option<u64> {
        self.reader.truncated_at()
    }
}

/// Lets the card on an interface go on from the report that the file has of it.
fn apply_earlier_report(links: &mut Links, number: usize, interface: &Interface) {
    let report = earlier_report::from_comments(&interface.comments);
    if let (Some(report), Ok(link)) = (report, number.try_into()) {
        links.continue_from(link, report);
    }
}

fn origin(packet: &Packet<'_>) -> Origin {
    Origin {
        packet: packet.number,
        offset: packet.offset,
        time: packet.time,
        link: packet.interface.try_into().unwrap_or(u16::MAX),
    }
}
