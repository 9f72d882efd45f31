//! Writes the symbols of code caches into the files in which perf(1) looks for symbols of anonymous
//! memory (`/tmp/perf-PID.map`).
//!
//! A file that exists when a process starts belongs to an earlier process with the same number, and
//! is removed. A file that exists when the process ends, or when `hmtt` attaches to it, may have
//! been written by the program itself, such as a JIT compiler. Such a file stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use hmtt_probe::control::{PerfMapError, PerfMapPlace, WrittenMap};
use nix::unistd::Pid;

/// The perf maps of all processes.
pub struct PerfMaps {
    /// Whether the first process was running before it was followed.
    is_attached: bool,
    /// Processes that have been followed.
    followed: BTreeSet<Pid>,
    written: Written,
}

/// The written maps. The map of a process's next program replaces the earlier map, unless somebody
/// has changed the earlier map.
type Written = Arc<Mutex<BTreeMap<Pid, WrittenMap>>>;

/// The map of a program. It is written at the program's end.
pub struct PlannedMap {
    pid: Pid,
    place: PerfMapPlace,
    written: Written,
}

impl PerfMaps {
    /// Creates an empty set of maps. `is_attached`: whether the first process runs already.
    pub fn new(is_attached: bool) -> Self {
        PerfMaps { is_attached, followed: BTreeSet::new(), written: Written::default() }
    }

    /// Prepares the map of a program that is about to be followed.
    ///
    /// # Errors
    /// [`PerfMapError`] if a file of an earlier process cannot be removed, or if a process that ran
    /// already may have a map of its own.
    pub fn begin(&mut self, pid: Pid) -> Result<PlannedMap, PerfMapError> {
        let place = PerfMapPlace::new(pid)?;
        let is_first = self.followed.is_empty();
        if self.followed.insert(pid) {
            if is_first && self.is_attached {
                place.check_absent()?;
            } else {
                place.remove_old()?;
            }
        }
        Ok(PlannedMap { pid, place, written: self.written.clone() })
    }
}

impl PlannedMap {
    /// Writes the map.
    ///
    /// # Errors
    /// [`PerfMapError`] if the map cannot be written, or if the program has written a map of its
    /// own.
    pub fn write(self, symbols: &str) -> Result<(), PerfMapError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = written.remove(&self.pid) {
            self.place.remove_written(earlier)?;
        }
        let map = self.place.create()?;
        written.insert(self.pid, map.finish(symbols)?);
        Ok(())
    }
}
