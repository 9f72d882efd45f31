//! Writes symbols of code caches where perf(1) looks for those of memory that belongs to no file.
//!
//! A file that is there when a process starts belongs to an earlier process with the same number,
//! and is removed. One that is there at its end, or when `hmtt` attaches, may have been written by
//! the program itself, such as a JIT compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use hmtt_probe::control::{PerfMapError, PerfMapPlace, WrittenMap};
use nix::unistd::Pid;

/// The perf maps of all processes.
pub struct PerfMaps {
    /// Whether the first process ran already.
    is_attached: bool,
    /// Processes that were followed.
    followed: BTreeSet<Pid>,
    written: Written,
}

/// Maps of processes, which those of the next program replace unless that has changed them.
type Written = Arc<Mutex<BTreeMap<Pid, WrittenMap>>>;

/// The map of a program, which is written at its end.
pub struct PlannedMap {
    pid: Pid,
    place: PerfMapPlace,
    written: Written,
}

impl PerfMaps {
    /// No maps. `is_attached`: whether the first process runs already.
    pub fn new(is_attached: bool) -> Self {
        PerfMaps { is_attached, followed: BTreeSet::new(), written: Written::default() }
    }

    /// A program of a process is about to be followed.
    ///
    /// # Errors
    /// [`PerfMapError`] if a file of an earlier process cannot be removed, or the process may have
    /// a map already.
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
    /// [`PerfMapError`] if that fails, or the program has a map of its own.
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
