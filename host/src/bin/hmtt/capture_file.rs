//! A capture file to the items of its cards, with complaints on standard error.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hmtt_host::decode::{CardCounts, Counts, Item, LinkCounts, Links, Origin};
use hmtt_host::pcapng::{Interface, Packet, PcapngReader, ReadError, Source};

/// Malformed frames that are named one by one.
const NAMED_FRAMES: u64 = 20;

/// An open capture.
pub struct CaptureFile {
    path: PathBuf,
    reader: PcapngReader<Source>,
}

/// What is wanted of the records of a capture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Each as an item.
    Events,
    /// To be counted only, which is much faster.
    Counted,
}

/// An item and where it belongs.
pub struct Found<'a> {
    /// Number of its card, from 0.
    pub card: usize,
    /// Index of its interface.
    pub link: u16,
    /// What the capture says of its interfaces so far.
    pub interfaces: &'a [Interface],
    pub item: Item,
}

/// What a capture held besides its items.
pub struct Ending {
    /// Of all cards together.
    pub counts: Counts,
    pub cards: Vec<CardCounts>,
    pub interfaces: Vec<Interface>,
}

impl Ending {
    /// Whether accesses are known to be missing.
    pub fn has_gaps(&self) -> bool {
        has_gaps(&self.counts)
    }
}

/// Whether accesses are known to be missing.
pub fn has_gaps(counts: &Counts) -> bool {
    counts.has_loss() || counts.accesses_before_start != 0
}

impl CaptureFile {
    /// Opens a capture.
    pub fn open(path: &Path) -> Result<Self> {
        let reader = PcapngReader::open(path).with_context(|| path.display().to_string())?;
        Ok(CaptureFile { path: path.into(), reader })
    }

    /// Reads to the end, or to what cannot be read: that is then an error, after everything before
    /// it has gone to `items`. `packets` sees each frame first, and says whether to go on.
    pub fn read(
        mut self,
        records: Records,
        mut packets: impl FnMut(&Packet<'_>) -> bool,
        mut items: impl FnMut(Found<'_>),
    ) -> Result<Ending> {
        let mut links = Links::default();
        // Items wait until the packet they came from is given back to the reader.
        let mut waiting: Vec<(usize, Item)> = Vec::new();
        let mut complaints = Complaints::default();
        let mut deliver = |waiting: &mut Vec<(usize, Item)>, links: &[u16], of: &[Interface]| {
            for (card, item) in waiting.drain(..) {
                complaints.note(&item);
                let link = links.get(card).copied().unwrap_or_default();
                items(Found { card, link, interfaces: of, item });
            }
        };
        let unreadable = loop {
            match self.reader.next_packet() {
                Ok(Some(packet)) if packets(&packet) => {
                    let mut sink = |card, item| waiting.push((card, item));
                    match records {
                        Records::Events => links.push(origin(&packet), packet.bytes, &mut sink),
                        Records::Counted => links.count(origin(&packet), packet.bytes, &mut sink),
                    }
                }
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
            deliver(&mut waiting, links.cards(), self.reader.interfaces());
        };
        let mut sink = |card, item| waiting.push((card, item));
        let LinkCounts { cards, foreign } = match records {
            Records::Events => links.finish(&mut sink),
            Records::Counted => links.finish_counted(&mut sink),
        };
        let numbers: Vec<u16> = cards.iter().map(|card| card.link).collect();
        deliver(&mut waiting, &numbers, self.reader.interfaces());
        self.end(LinkCounts { cards, foreign }, unreadable)
    }

    fn end(self, found: LinkCounts, unreadable: Option<ReadError>) -> Result<Ending> {
        let counts = found.sum();
        self.warn(&counts);
        match unreadable {
            None => {
                let interfaces = self.reader.interfaces().to_vec();
                Ok(Ending { counts, cards: found.cards, interfaces })
            }
            Some(error) => Err(error).with_context(|| {
                let read = counts.frames + counts.foreign;
                format!("{}: read up to packet {read}", self.path.display())
            }),
        }
    }

    fn warn(&self, counts: &Counts) {
        let path = self.path.display();
        if let Some(offset) = self.reader.truncated_at() {
            eprintln!(
                "hmtt: warning: {path}: ends within the block at offset {offset}; read up to there"
            );
        }
        if counts.frames == 0 {
            eprintln!("hmtt: warning: {path}: no frame of a card among {} frames", counts.foreign);
        }
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

/// Names malformed frames, the first ones one by one.
#[derive(Default)]
struct Complaints {
    malformed: u64,
}

impl Complaints {
    fn note(&mut self, item: &Item) {
        let Item::Malformed { origin: Origin { packet, offset, .. }, error } = item else { return };
        self.malformed += 1;
        if self.malformed <= NAMED_FRAMES {
            eprintln!("hmtt: malformed frame: packet {packet} at offset {offset}: {error}");
        } else if self.malformed == NAMED_FRAMES + 1 {
            eprintln!("hmtt: more malformed frames; `hmtt info` counts them");
        }
    }
}
