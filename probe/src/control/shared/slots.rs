//! Threads to the slots of the shared memory that are theirs while they live.
//!
//! Slot 0 is nobody's: children that have a copy of a thread's registers get it, and what they write there is
//! not looked at.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::Pid;

use super::{Inherited, SLOTS, Shared, backing};
use crate::control::TagError;
use crate::ptrace::{Process, mappings};

/// Slots that are free again.
pub type Free = Arc<Mutex<Vec<u64>>>;

/// Which thread has which slot.
#[derive(Debug)]
pub struct Slots {
    shared: Arc<Shared>,
    of: BTreeMap<Pid, u64>,
    free: Free,
    next: u64,
}

impl Slots {
    /// No thread has one. `inherited`: of a child, which may write what its parent was about to write when it
    /// began, to where it is not looked at for long.
    pub fn new(shared: Arc<Shared>, inherited: Option<Inherited>) -> Self {
        let taken = inherited.map_or(0, |one| shared.slot_of(one.gs));
        let next = taken % (SLOTS / 2) + 1;
        Slots { shared, of: BTreeMap::new(), free: Free::default(), next }
    }

    /// Where slots are to be put that are free again.
    pub fn free(&self) -> Free {
        Arc::clone(&self.free)
    }

    /// A slot that is no thread's, all zeros but for what slots keep.
    fn unused(&mut self) -> Option<u64> {
        let freed = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = freed.unwrap_or(self.next);
        self.next = self.next.max(slot + 1);
        (slot < SLOTS).then_some(slot)
    }

    /// Makes a slot a thread's; `None` if all are taken.
    pub fn hand_out(&mut self, thread: Pid) -> Option<u64> {
        let slot = self.unused()?;
        self.of.insert(thread, slot);
        Some(slot)
    }

    /// Gives a thread that stands still a slot.
    pub fn enter(&mut self, process: &Process, thread: Pid) -> Result<u64, TagError> {
        let none = || TagError::Shared {
            pid: process.pid,
            source: io::Error::other("too many threads at once"),
        };
        let slot = self.hand_out(thread).ok_or_else(none)?;
        let shared = &self.shared;
        set_gs(process, thread, shared.slot_address(slot), |old| shared.holds(old))?;
        Ok(slot)
    }

    /// Whether a thread has one.
    pub fn knows(&self, thread: Pid) -> bool {
        self.of.contains_key(&thread)
    }

    /// Takes note that a thread has ended; its slot is not free yet.
    pub fn leave(&mut self, thread: Pid) -> Option<u64> {
        self.of.remove(&thread)
    }

    /// Threads that live, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (Pid, u64)> {
        self.of.iter().map(|(thread, slot)| (*thread, *slot))
    }

    /// `gs` of those that are no threads of the process.
    pub fn of_nobody(&self) -> u64 {
        self.shared.slot_address(0)
    }
}

/// Gives a thread that stands still a `gs`. `is_ours`: whether one that it has already is of ours.
pub fn set_gs(
    process: &Process,
    thread: Pid,
    address: u64,
    is_ours: impl Fn(u64) -> bool,
) -> Result<(), TagError> {
    let mut registers = process.registers(thread)?;
    // A new thread has that of the one that started it.
    let old = registers.gs_base;
    if old != 0 && !is_ours(old) && !is_of_earlier(process, old)? {
        return Err(TagError::GsInUse(process.pid));
    }
    registers.gs_base = address;
    Ok(process.set_registers(thread, registers)?)
}

/// Whether an address is in memory of tags that were taken out: it stays, because a signal may have come
/// just before something was written there.
fn is_of_earlier(process: &Process, address: u64) -> Result<bool, TagError> {
    Ok(mappings(process.pid)?.iter().any(|mapping| {
        (mapping.start..mapping.end).contains(&address) && backing::is_ours(&mapping.path)
    }))
}
