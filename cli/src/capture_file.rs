//! A capture file to the accesses and other items of its cards, with complaints on standard error.

use std::path::Path;

use anyhow::{Context, Result};
use hmtt::capture_reader::CaptureReader;
use hmtt::decode::{Accesses, CardCounts, Counts, Item, LinkCounts, Origin};
use hmtt::pcapng::{Interface, Packet, ReadError};

use super::standard::{input, is_standard, name_of_input};
use super::waiting::Waiting;

/// Malformed frames that are named one by one.
const NAMED_FRAMES: u64 = 20;

/// An open capture.
pub struct CaptureFile {
    name: String,
    reader: CaptureReader,
}

/// Some of a capture's trace, in its order, and where it belongs.
pub struct Found<'a> {
    /// Number of its card, from 0.
    pub card: usize,
    /// What the capture says of the interface that the card is on.
    pub interface: Option<&'a Interface>,
    /// Accesses; none where they are only counted.
    pub accesses: Accesses<'a>,
    /// What came after them, if it is no access.
    pub item: Option<Item>,
}

/// What a capture held besides its items.
pub struct Ending {
    /// Of all cards together.
    pub counts: Counts,
    pub cards: Vec<CardCounts>,
    pub interfaces: Vec<Interface>,
    /// The file ends within a block: its writer was killed, or the file was cut.
    pub is_cut: bool,
}

impl Ending {
    /// Whether anything from the first frame on is known to be missing. What was before it is of
    /// another time, or in the file before.
    pub fn has_loss(&self) -> bool {
        self.is_cut || self.counts.has_loss()
    }
}

impl CaptureFile {
    /// Opens a capture; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        let name = name_of_input(path);
        let reader = if is_standard(path) {
            CaptureReader::stream(input().with_context(|| name.clone())?)
        } else {
            CaptureReader::open(path)
        };
        Ok(CaptureFile { reader: reader.with_context(|| name.clone())?, name })
    }

    /// Reads to the end, or to what cannot be read: that is then an error, after everything before
    /// it has gone to `found`. `packets` sees each frame first, and says whether to go on.
    pub fn read(
        self,
        packets: impl FnMut(&Packet<'_>) -> bool,
        found: impl FnMut(Found<'_>),
    ) -> Result<Ending> {
        self.read_to(Waiting::<true>::default(), packets, found)
    }

    /// As [`CaptureFile::read`], but records are only counted, which is much faster.
    pub fn count(
        self,
        packets: impl FnMut(&Packet<'_>) -> bool,
        found: impl FnMut(Found<'_>),
    ) -> Result<Ending> {
        self.read_to(Waiting::<false>::default(), packets, found)
    }

    fn read_to<const EVENTS: bool>(
        mut self,
        mut waiting: Waiting<EVENTS>,
        mut packets: impl FnMut(&Packet<'_>) -> bool,
        mut found: impl FnMut(Found<'_>),
    ) -> Result<Ending> {
        let mut malformed = 0;
        let mut pass_on = |waiting: &mut Waiting<EVENTS>, of: Of<'_>| {
            waiting.pass_on(|card, accesses, item| {
                if let Some(Item::Malformed { origin, error }) = &item {
                    malformed += 1;
                    name_malformed(malformed, *origin, error);
                }
                found(Found { card, interface: of.interface(card), accesses, item });
            });
        };
        let unreadable = loop {
            match self.reader.next_packet() {
                Ok(Some(mut next)) if packets(&next.packet) => {
                    next.decode(&mut waiting);
                    if waiting.is_due() {
                        pass_on(&mut waiting, Of(next.cards(), next.packet.interfaces));
                    }
                }
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        let counted = self.reader.finish(&mut waiting);
        let links: Vec<u16> = counted.cards.iter().map(|card| card.link).collect();
        pass_on(&mut waiting, Of(&links, self.reader.interfaces()));
        self.end(counted, unreadable)
    }

    fn end(self, counted: LinkCounts, unreadable: Option<ReadError>) -> Result<Ending> {
        let counts = counted.sum();
        self.warn(&counts);
        let interfaces = self.reader.interfaces().to_vec();
        match unreadable {
            None => {
                let is_cut = self.reader.truncated_at().is_some();
                Ok(Ending { counts, cards: counted.cards, interfaces, is_cut })
            }
            Some(error) => Err(error).with_context(|| {
                format!("{}: read up to packet {}", self.name, counts.frames + counts.foreign)
            }),
        }
    }

    fn warn(&self, counts: &Counts) {
        let name = &self.name;
        if let Some(offset) = self.reader.truncated_at() {
            eprintln!(
                "hmtt: warning: {name}: ends within the block at offset {offset}; read up to there"
            );
        }
        if counts.frames == 0 {
            eprintln!("hmtt: warning: {name}: no frame of a card among {} frames", counts.foreign);
        }
    }
}

/// The link of each card, and the interfaces.
struct Of<'a>(&'a [u16], &'a [Interface]);

impl<'a> Of<'a> {
    fn interface(&self, card: usize) -> Option<&'a Interface> {
        self.1.get(usize::from(*self.0.get(card)?))
    }
}

fn name_malformed(count: u64, origin: Origin, error: &impl std::fmt::Display) {
    let Origin { packet, offset, .. } = origin;
    if count <= NAMED_FRAMES {
        eprintln!("hmtt: malformed frame: packet {packet} at offset {offset}: {error}");
    } else if count == NAMED_FRAMES + 1 {
        eprintln!("hmtt: more malformed frames; `hmtt info` counts them");
    }
}
