//! A capture file to the items of its trace, with complaints on standard error.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hmtt_host::decode::{Counts, Item, Origin, Trace};
use hmtt_host::pcapng::{Interface, Packet, PcapngReader, Source};

/// Malformed frames that are named one by one.
const NAMED_FRAMES: u64 = 20;

/// An open capture.
pub struct CaptureFile {
    path: PathBuf,
    reader: PcapngReader<Source>,
}

/// What a capture held besides its items.
pub struct Ending {
    pub counts: Counts,
    pub interfaces: Vec<Interface>,
}

impl Ending {
    /// Whether accesses are known to be missing.
    pub fn has_gaps(&self) -> bool {
        self.counts.has_loss() || self.counts.accesses_before_start != 0
    }
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
        mut packets: impl FnMut(&Packet<'_>) -> bool,
        mut items: impl FnMut(Item),
    ) -> Result<Ending> {
        let mut malformed = 0;
        let mut sink = |item: Item| {
            if let Item::Malformed { origin, error } = &item {
                malformed += 1;
                name_malformed(malformed, *origin, error);
            }
            items(item);
        };
        let mut trace = Trace::default();
        let unreadable = loop {
            match self.reader.next_packet() {
                Ok(Some(packet)) if packets(&packet) => {
                    let origin = Origin {
                        packet: packet.number,
                        offset: packet.offset,
                        time: packet.time,
                        link: 0,
                    };
                    trace.push(origin, packet.bytes, &mut sink);
                }
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        let counts = trace.finish(&mut sink);
        self.warn(&counts);
        let path = self.path.display();
        match unreadable {
            None => Ok(Ending { counts, interfaces: self.reader.interfaces().to_vec() }),
            Some(error) => Err(error).with_context(|| {
                format!("{path}: read up to packet {}", counts.frames + counts.foreign)
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

fn name_malformed(count: u64, origin: Origin, error: &impl std::fmt::Display) {
    let Origin { packet, offset, .. } = origin;
    if count <= NAMED_FRAMES {
        eprintln!("hmtt: malformed frame: packet {packet} at offset {offset}: {error}");
    } else if count == NAMED_FRAMES + 1 {
        eprintln!("hmtt: more malformed frames; `hmtt info` counts them");
    }
}
