//! Assigns slots of the shared memory to threads.
//!
//! Slot 0 is never read. Children that have a copy of a thread's registers get this slot, so what
//! they write is discarded.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::Pid;

use super::{InheritedMemory, SLOTS, Shared, backing};
use crate::address::RunAddr;
use crate::control::TagError;
use crate::ptrace::{StoppedThread, mappings};

/// Slots of ended threads, which can be assigned again.
pub type FreeSlots = Arc<Mutex<Vec<u64>>>;

/// The slot of each thread.
#[derive(Debug)]
pub struct Slots {
    shared: Arc<Shared>,
    of: BTreeMap<Pid, u64>,
    free: FreeSlots,
    next: u64,
}

impl Slots {
    /// Makes an empty assignment. `inherited`: memory of a child. The child may still finish a
    /// record that its parent had begun, so the slot of that record is assigned as late as
    /// possible.
    pub fn new(shared: Arc<Shared>, inherited: Option<InheritedMemory>) -> Self {
        let last_slot = inherited.map_or(0, |memory| shared.slot_of(memory.gs));
        let next = last_slot % (SLOTS / 2) + 1;
        Slots { shared, of: BTreeMap::new(), free: FreeSlots::default(), next }
    }

    /// The list to which the slots of ended threads are added.
    pub fn free(&self) -> FreeSlots {
        Arc::clone(&self.free)
    }

    /// Returns a slot that no thread has; `None` if all are in use. The bytes of the slot are 0,
    /// except for values that slots keep.
    fn unused(&mut self) -> Option<u64> {
        let freed = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = freed.unwrap_or(self.next);
        self.next = self.next.max(slot + 1);
        (slot < SLOTS).then_some(slot)
    }

    /// Assigns a slot to a thread; `None` if all slots are in use.
    pub fn assign(&mut self, thread: Pid) -> Option<u64> {
        let slot = self.unused()?;
        self.of.insert(thread, slot);
        Some(slot)
    }

    /// Assigns a slot to a stopped thread, and sets the thread's `gs`.
    pub fn add_thread(&mut self, thread: StoppedThread<'_>) -> Result<u64, TagError> {
        let none = || TagError::Shared {
            pid: thread.pid(),
            operation: "share memory with one more thread",
            source: io::Error::other("too many threads at once"),
        };
        let slot = self.assign(thread.id()).ok_or_else(none)?;
        let shared = &self.shared;
        set_gs(thread, shared.slot_address(slot), |old| shared.contains(old))?;
        Ok(slot)
    }

    /// Whether a thread has a slot.
    pub fn has_thread(&self, thread: Pid) -> bool {
        self.of.contains_key(&thread)
    }

    /// Removes a thread that has ended. Returns its slot. The slot is not in the list of free slots
    /// yet.
    pub fn remove_thread(&mut self, thread: Pid) -> Option<u64> {
        self.of.remove(&thread)
    }

    /// Threads with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (Pid, u64)> {
        self.of.iter().map(|(thread, slot)| (*thread, *slot))
    }

    /// Value of `gs` with which the output of tags is discarded, for threads of other processes.
    pub fn discard_address(&self) -> RunAddr {
        self.shared.slot_address(0)
    }
}

/// Sets `gs` of a stopped thread. `is_tag_memory`: whether an address belongs to memory of this
/// controller; the thread may already have such a `gs`.
pub fn set_gs(
    thread: StoppedThread<'_>,
    address: RunAddr,
    is_tag_memory: impl Fn(RunAddr) -> bool,
) -> Result<(), TagError> {
    let mut registers = thread.registers()?;
    // A new thread has the `gs` of the thread that started it.
    let old = RunAddr(registers.gs_base);
    if old != RunAddr(0) && !is_tag_memory(old) && !is_of_earlier(thread.pid(), old)? {
        return Err(TagError::GsInUse(thread.pid()));
    }
    registers.gs_base = address.0;
    Ok(thread.set_registers(registers)?)
}

/// Whether an address is in memory of tags that were removed. Such memory stays mapped where a
/// signal may have interrupted a tag just before it wrote to the memory.
fn is_of_earlier(pid: Pid, address: RunAddr) -> Result<bool, TagError> {
    Ok(mappings(pid)?.iter().any(|mapping| {
        (mapping.start..mapping.end).contains(&address) && backing::is_tag_memory(&mapping.path)
    }))
}
