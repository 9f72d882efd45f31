//! Reads a capture file. Passes on the accesses and other items of its cards, and prints warnings
//! on standard error.

use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use hmtt::capture_reader::CaptureReader;
use hmtt::decode::{Accesses, CardCounts, Counts, Item, LinkCounts, Origin};
use hmtt::pcapng::{Interface, Packet, ReadError};
use hmtt::{CardId, LinkId};

use super::item_buffer::ItemBuffer;
use super::standard_io::{STANDARD, input, is_standard, name_of_input};

/// Maximum number of malformed frames that are listed one by one.
const NAMED_FRAMES: u64 = 20;

/// An open capture.
pub struct CaptureFile {
    name: String,
    reader: CaptureReader,
}

/// Some accesses of one card, and the item after them. Parts come in the order of the capture.
pub struct CaptureItems<'a> {
    pub card: CardId,
    /// The capture's description of the interface that received the card's frames.
    pub interface: Option<&'a Interface>,
    /// The accesses; empty if accesses are only counted.
    pub accesses: Accesses<'a>,
    /// The item after the accesses, such as a gap or a tag; `None` if there is none.
    pub item: Option<Item>,
}

/// Totals of a capture, known at its end.
pub struct Ending {
    /// Counts of all cards together.
    pub counts: Counts,
    pub cards: Vec<CardCounts>,
    pub interfaces: Vec<Interface>,
    /// Whether the file ends within a block: its writer was killed, or the file was cut.
    pub is_cut: bool,
    /// Descriptions of blocks in the capture that this reader does not read.
    unread: Vec<String>,
}

/// Error: a capture has no frame of any card, or of the requested card.
#[derive(Debug)]
pub struct NoCard(pub String);

impl fmt::Display for NoCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoCard {}

impl Ending {
    /// Whether anything after the first frame is known to be missing. Losses before the first frame
    /// belong to an earlier time, or to the previous file of a series.
    pub fn has_loss(&self) -> bool {
        self.is_cut || self.counts.has_loss()
    }

    /// Rejects a capture without a frame of a card, because it says nothing about any card. `name`:
    /// name of the capture.
    pub fn check_card(&self, name: &str) -> Result<()> {
        if self.counts.frames != 0 {
            return Ok(());
        }
        let others = self.counts.foreign_frames;
        let others = format!("{others} other {}", if others == 1 { "packet" } else { "packets" });
        let others = [&[others][..], &self.unread].concat().join("; ");
        let reason = "it is the capture of another wire, or no card has sent anything";
        Err(NoCard(format!("{name}: no frame of a card is in it ({others}): {reason}")).into())
    }
}

impl CaptureFile {
    /// Opens a capture; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        let name = name_of_input(path);
        let reader = if is_standard(path) {
            CaptureReader::stream(input().with_context(|| format!("{name}: cannot open"))?)
        } else {
            CaptureReader::open(path)
        };
        Ok(CaptureFile { reader: reader.with_context(|| name.clone())?, name })
    }

    /// Continues to read a capture from standard input. `begin`: the bytes that were already read.
    pub fn stream_after(begin: Vec<u8>, file: File) -> Result<Self> {
        let name = name_of_input(Path::new(STANDARD));
        let reader = CaptureReader::stream_after(begin, file).with_context(|| name.clone())?;
        Ok(CaptureFile { reader, name })
    }

    /// Reads the whole file. `packets` receives each frame first, and returns whether to continue.
    /// `items` receives the decoded items.
    ///
    /// # Errors
    /// The content is unreadable, or the capture has no frame of a card. Everything before the
    /// error was passed to `items`.
    pub fn read(
        self,
        packets: impl FnMut(&Packet<'_>) -> bool,
        items: impl FnMut(CaptureItems<'_>),
    ) -> Result<Ending> {
        let name = self.name.clone();
        let ending = self.read_to(ItemBuffer::<true>::default(), packets, items)?;
        ending.check_card(&name)?;
        Ok(ending)
    }

    /// Reads the whole file, but only counts records and does not pass accesses on. This is much
    /// faster than [`CaptureFile::read`]. A capture without a frame of a card is no error.
    pub fn count(
        self,
        packets: impl FnMut(&Packet<'_>) -> bool,
        items: impl FnMut(CaptureItems<'_>),
    ) -> Result<Ending> {
        self.read_to(ItemBuffer::<false>::default(), packets, items)
    }

    fn read_to<const EVENTS: bool>(
        mut self,
        mut buffer: ItemBuffer<EVENTS>,
        mut packets: impl FnMut(&Packet<'_>) -> bool,
        mut items: impl FnMut(CaptureItems<'_>),
    ) -> Result<Ending> {
        let mut malformed = 0;
        let mut pass_on = |buffer: &mut ItemBuffer<EVENTS>, interfaces: CardInterfaces<'_>| {
            buffer.pass_on(|card, accesses, item| {
                if let Some(Item::Malformed { origin, error }) = &item {
                    malformed += 1;
                    name_malformed(malformed, *origin, error);
                }
                items(CaptureItems { card, interface: interfaces.interface(card), accesses, item });
            });
        };
        let unreadable = loop {
            match self.reader.next_packet() {
                Ok(Some(mut next)) if packets(&next.packet) => {
                    next.decode(&mut buffer);
                    if buffer.is_due() {
                        pass_on(&mut buffer, CardInterfaces(next.cards(), next.packet.interfaces));
                    }
                }
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        let counted = self.reader.finish(&mut buffer);
        let links: Vec<LinkId> = counted.cards.iter().map(|card| card.link).collect();
        pass_on(&mut buffer, CardInterfaces(&links, self.reader.interfaces()));
        self.end(counted, unreadable)
    }

    fn end(self, counted: LinkCounts, unreadable: Option<ReadError>) -> Result<Ending> {
        let counts = counted.sum();
        self.warn();
        let interfaces = self.reader.interfaces().to_vec();
        match unreadable {
            None => {
                let is_cut = self.reader.truncated_at().is_some();
                let unread = self.reader.unread().in_words();
                Ok(Ending { counts, cards: counted.cards, interfaces, is_cut, unread })
            }
            Some(error) => Err(error).with_context(|| {
                format!(
                    "{}: read up to packet {}",
                    self.name,
                    counts.frames + counts.foreign_frames
                )
            }),
        }
    }

    fn warn(&self) {
        let name = &self.name;
        if let Some(offset) = self.reader.truncated_at() {
            report!(
                "hmtt: warning: {name}: ends within the block at offset {offset}; read up to there"
            );
        }
    }
}

/// For each card its link, and the interfaces of the links.
struct CardInterfaces<'a>(&'a [LinkId], &'a [Interface]);

impl<'a> CardInterfaces<'a> {
    fn interface(&self, card: CardId) -> Option<&'a Interface> {
        self.1.get(self.0.get(card.0)?.index())
    }
}

fn name_malformed(count: u64, origin: Origin, error: &impl std::fmt::Display) {
    let Origin { packet, offset, .. } = origin;
    if count <= NAMED_FRAMES {
        report!("hmtt: malformed frame: packet {packet} at offset {offset}: {error}");
    } else if count == NAMED_FRAMES + 1 {
        report!("hmtt: more malformed frames; `hmtt info` counts them");
    }
}
