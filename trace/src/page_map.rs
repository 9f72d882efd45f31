//! Reads maps of pages (`docs/pagemap.md`), and resolves physical addresses to processes, mappings
//! and virtual addresses.
//!
//! ```text
//! file -> reader: chunks -> history: the frames of each process, with first and last snapshot -> owners: frame -> Owner
//! accesses, with marks of snapshots between them -> attributor -> attribution: accesses by process and by mapping
//! HMTT's 13-byte records <-> table_records
//! ```
//!
//! Invariant: nothing is guessed. A frame is resolved only if all snapshots agree on it
//! ([`Owner`]). If a capture has marks that relate its clock to the map, only the snapshots around
//! the access must agree. Memory and time are linear in the file, except for sorting.

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

use hmtt_files::page_map::{Clock, Ending, Machine, MapError, Mapping, Process, Snapshot};

pub use attribution::{Attribution, MappingAccesses, ProcessAccesses, Rule};
pub use attributor::Attributor;
pub use history::Held;
pub use label::label;
pub use owners::{Between, MOST_OWNERS, Owner, Owners};

/// The reason why a map cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PageMapError {
    /// The file cannot be opened or read.
    #[error("cannot be read")]
    File(#[from] std::io::Error),
    /// The file is no map, or has another version.
    #[error(transparent)]
    Format(#[from] MapError),
    /// The map has no complete snapshot.
    #[error("has no whole snapshot of any process{0}")]
    Empty(String),
    /// The map was made on another machine than the capture.
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

/// A process in a map.
#[derive(Clone, Debug, Default)]
pub struct MappedProcess {
    /// Identity of the process.
    pub process: Process,
    /// Number of times that the process was read.
    pub scans: u64,
    /// Pages that had a frame at the last reading.
    pub present_pages: u64,
    /// Pages that were swapped out at the last reading.
    pub swapped_pages: u64,
    /// Pages whose frame the kernel hid at the last reading.
    pub hidden_pages: u64,
    /// Longest duration of a reading, in nanoseconds of the map's clock.
    pub longest_scan_ns: u64,
    /// Longest time from the begin of a reading to the end of the next one, in nanoseconds of the
    /// map's clock; 0 if the process was read once. In this time a page may have moved unnoticed.
    pub longest_stale_ns: u64,
    /// Begin of the last reading, in nanoseconds of the map's clock.
    last_begin_ns: u64,
    /// Whether the process has ended before the end of the map.
    pub is_gone: bool,
}

/// A map that was read, to its end or as far as possible.
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    /// The machine on which the map was made.
    pub machine: Machine,
    /// Processes by number. The first process has number 1.
    pub processes: Vec<MappedProcess>,
    /// Mappings by number, each with the number of its process. The first mapping has number 1.
    pub mappings: Vec<(u32, Mapping)>,
    /// The complete snapshots, in the order of time.
    pub snapshots: Vec<Snapshot>,
    /// The frames that each process had, with the snapshots in which it had them.
    pub held: Vec<Held>,
    /// The reason why the recording ended; `None` if the file is cut.
    pub ending: Option<Ending>,
    /// Sentences on the parts of the map that are missing.
    pub missing: Vec<String>,
}

impl PageMap {
    /// Reads a map.
    ///
    /// # Errors
    /// [`PageMapError`]: the file cannot be read, is no map, or has no complete snapshot.
    pub fn open(path: impl AsRef<Path>) -> Result<PageMap, PageMapError> {
        let file = std::fs::File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into());
        }
        PageMap::read(std::io::BufReader::with_capacity(1 << 16, file))
    }

    /// The process with this number; `None` if there is none.
    pub fn process(&self, number: u32) -> Option<&MappedProcess> {
        self.processes.get((number as usize).checked_sub(1)?)
    }

    /// The mapping with this number; `None` if there is none.
    pub fn mapping(&self, number: u32) -> Option<&Mapping> {
        self.mappings.get((number as usize).checked_sub(1)?).map(|(_, mapping)| mapping)
    }

    /// Bytes of the machine's memory; `None` if the map does not state them.
    pub fn memory_bytes(&self) -> Option<u64> {
        let lengths = self.machine.memory.iter().map(|range| range.end.saturating_sub(range.start));
        Some(lengths.fold(0, u64::saturating_add)).filter(|bytes| *bytes > 0)
    }

    /// Whether the map's times are nanoseconds. If not, they only number the snapshots in order.
    pub fn is_timed(&self) -> bool {
        self.machine.clock == Clock::Monotonic
    }

    /// Longest time in which a page may have moved unnoticed, in nanoseconds. `None` if no process
    /// was read twice, or if the map has no times.
    pub fn longest_stale_ns(&self) -> Option<u64> {
        if !self.is_timed() {
            return None;
        }
        self.processes.iter().map(|process| process.longest_stale_ns).max().filter(|ns| *ns > 0)
    }

    /// Checks that a card's memory can belong to this machine. `capacity_bytes`: bytes of the
    /// card's memory, which may be at most twice the machine's bytes.
    ///
    /// # Errors
    /// [`PageMapError::OtherMachine`].
    pub fn check_capacity(&self, capacity_bytes: u64) -> Result<(), PageMapError> {
        match self.memory_bytes() {
            // The factor is needed because firmware and devices use a part of the memory, which the
            // map does not list.
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
