//! The original code of a process: what may be translated, and which files it comes from.
//!
//! Translated is code in private mappings that the process can execute and not write. Code that can change without a
//! system call of the process runs natively.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{Mapping, ReadMemory, RunningMemory, mappings};
use nix::unistd::Pid;

use crate::code::CodeBytes;
use crate::layout::PAGE_BYTES;

/// Executable mappings of a process at one time.
pub type Files = Arc<Vec<Mapping>>;

/// The code of a running process.
pub struct ProcessCode {
    memory: RunningMemory,
    maps: RefCell<Maps>,
}

/// What is known about the mappings.
struct Maps {
    /// The current executable mappings; out of date if `None`.
    current: Option<Files>,
    /// All states that blocks were translated in, in order.
    states: Vec<Files>,
}

impl ProcessCode {
    /// The code of a process that this one traces.
    ///
    /// # Errors
    /// The error of opening its memory.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let maps = Maps { current: None, states: Vec::new() };
        Ok(ProcessCode { memory: RunningMemory::open(pid)?, maps: RefCell::new(maps) })
    }

    /// The executable mappings may have changed.
    pub fn forget(&self) {
        self.maps.borrow_mut().current = None;
    }

    /// The executable mappings, and the number of their state.
    fn current(&self) -> Files {
        let mut maps = self.maps.borrow_mut();
        if let Some(current) = &maps.current {
            return current.clone();
        }
        let mut all = mappings(self.memory.pid()).unwrap_or_default();
        all.retain(|one| one.executable);
        if maps.states.last().is_none_or(|last| **last != all) {
            maps.states.push(Arc::new(all));
        }
        let current = maps.states.last().cloned().unwrap_or_default();
        maps.current = Some(current.clone());
        current
    }

    /// The state of the mappings in which the last code was read.
    pub fn files(&self) -> Files {
        self.current()
    }

    /// Whether a range contains addresses that can be executed.
    pub fn is_code(&self, range: &Range<RunAddr>) -> bool {
        self.current().iter().any(|one| one.start < range.end && range.start < one.end)
    }

    /// End of the code that may be translated at an address.
    fn end_of(&self, at: RunAddr) -> Option<RunAddr> {
        let all = self.current();
        let found = all.iter().find(|one| (one.start..one.end).contains(&at))?;
        (!found.writable && !found.shared).then_some(found.end)
    }
}

impl CodeBytes for ProcessCode {
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize {
        let mut read = 0;
        while read < into.len() {
            let Some(from) = at.checked_add(read as u64) else { break };
            let Some(end) = self.end_of(from) else { break };
            // Single pages behind the end of a file cannot be read.
            let page_end = RunAddr(from.0 / PAGE_BYTES * PAGE_BYTES).saturating_add(PAGE_BYTES);
            let length = (end.min(page_end) - from).min((into.len() - read) as u64) as usize;
            if self.memory.read(from, &mut into[read..read + length]).is_err() {
                break;
            }
            read += length;
        }
        read
    }
}
