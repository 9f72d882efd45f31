//! Reads maps of pages (`docs/pagemap.md`), and resolves physical addresses to processes, mappings
//! and virtual addresses.
//!
//! ```text
//! file -> reader: chunks -> history: who had which frames, from which snapshot to which -> owners: frame -> Owner
//! accesses, marks of snapshots among them -> attributor -> attribution: accesses by process and by mapping
//! HMTT's 13-byte records <-> table_records
//! ```
//!
//! Invariant: nothing is guessed. A frame is resolved if every snapshot says the same of it
//! ([`Owner`]), or, where marks in a capture relate its clock to the map, every snapshot around the
//! access. Memory and time are linear in the file, besides sorting.

mod attribution;
mod attributor;
mod history;
mod label;
mod layer;
mod owners;
mod reader;
pub mod table_records;
#[cfg(test)]
mod tests;

use std::path::Path;

use hmtt_format::page_map::{Clock, Ending, Machine, MapError, Mapping, Process, Snapshot};

pub use attribution::{Attribution, MappingAccesses, ProcessAccesses, Rule};
pub use attributor::Attributor;
pub use history::Held;
pub use label::label;
pub use owners::{Between, MOST_OWNERS, Owner, Owners};

/// Why a map cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PageMapError {
    /// It cannot be opened or read.
    #[error("cannot be read")]
    File(#[from] std::io::Error),
    /// It is none, or of another version.
    #[error(transparent)]
    Format(#[from] MapError),
    /// It has no whole snapshot.
    #[error("has no whole snapshot of any process{0}")]
    Empty(String),
    /// It is of another machine.
    #[error(
        "is a map of another machine: that has {ram_mib} MiB of memory, and the card's memory has {card_mib} MiB"
    )]
    OtherMachine {
        /// Memory of the machine, in MiB.
        ram_mib: u64,
        /// Memory that the card watches, in MiB.
        card_mib: u64,
    },
}

/// A process of a map.
#[derive(Clone, Debug, Default)]
pub struct MappedProcess {
    /// What identifies it.
    pub process: Process,
    /// Times that it was read.
    pub scans: u64,
    /// Pages with frames at the last reading.
    pub present_pages: u64,
    /// Pages that were swapped out at the last reading.
    pub swapped_pages: u64,
    /// Pages whose frame the kernel did not show at the last reading.
    pub hidden_pages: u64,
    /// Longest time of a reading, by the clock of the map.
    pub longest_scan_ns: u64,
    /// Longest time from the begin of a reading to the end of the next one, by the clock of the
    /// map; 0 if it was read once.
    pub longest_stale_ns: u64,
    /// When the last reading began.
    last_begin_ns: u64,
    /// Whether it has ended in the map.
    pub is_gone: bool,
}

/// A map, read to its end or as far as possible.
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    /// The machine.
    pub machine: Machine,
    /// Processes, of which the first has number 1.
    pub processes: Vec<MappedProcess>,
    /// Mappings, of which the first has number 1, each with the number of its process.
    pub mappings: Vec<(u32, Mapping)>,
    /// Whole snapshots.
    pub snapshots: Vec<Snapshot>,
    /// Which process had which frames, and when.
    pub held: Vec<Held>,
    /// Why the map ends; `None` if it is cut.
    pub ending: Option<Ending>,
    /// What is missing, for people.
    pub missing: Vec<String>,
}

impl PageMap {
    /// Reads a map.
    ///
    /// # Errors
    /// [`PageMapError`]: it cannot be read, is none, or has no whole snapshot.
    pub fn open(path: impl AsRef<Path>) -> Result<PageMap, PageMapError> {
        let file = std::fs::File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into());
        }
        PageMap::read(std::io::BufReader::with_capacity(1 << 16, file))
    }

    /// The process with a number.
    pub fn process(&self, number: u32) -> Option<&MappedProcess> {
        self.processes.get((number as usize).checked_sub(1)?)
    }

    /// The mapping with a number.
    pub fn mapping(&self, number: u32) -> Option<&Mapping> {
        self.mappings.get((number as usize).checked_sub(1)?).map(|(_, mapping)| mapping)
    }

    /// Bytes of the machine's memory; `None` if they are not known.
    pub fn memory_bytes(&self) -> Option<u64> {
        let lengths = self.machine.memory.iter().map(|range| range.end.saturating_sub(range.start));
        Some(lengths.fold(0, u64::saturating_add)).filter(|bytes| *bytes > 0)
    }

    /// Whether times of the map are nanoseconds, and not only an order.
    pub fn is_timed(&self) -> bool {
        self.machine.clock == Clock::Monotonic
    }

    /// Longest time in which a page may have moved unnoticed, in nanoseconds; `None` if no process
    /// was read twice, or the map has no times.
    pub fn longest_stale_ns(&self) -> Option<u64> {
        if !self.is_timed() {
            return None;
        }
        self.processes.iter().map(|one| one.longest_stale_ns).max().filter(|ns| *ns > 0)
    }

    /// Checks that a card's memory can be one of this machine: it has not more than twice as many
    /// bytes.
    ///
    /// # Errors
    /// [`PageMapError::OtherMachine`].
    pub fn check_capacity(&self, capacity_bytes: u64) -> Result<(), PageMapError> {
        match self.memory_bytes() {
            // Firmware and devices have a part of a memory, which is then not one of the ranges.
            Some(bytes) if capacity_bytes > bytes.saturating_mul(2) => {
                Err(PageMapError::OtherMachine {
                    ram_mib: bytes >> 20,
                    card_mib: capacity_bytes >> 20,
                })
            }
            _ => Ok(()),
        }
    }
}
