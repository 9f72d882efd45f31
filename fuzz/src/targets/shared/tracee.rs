//! Writes and reads shared memory as a traced process does.

use std::fs::File;
use std::os::unix::fs::FileExt;

use hmtt_probe::address::RunAddr;
use hmtt_probe::fuzzing::{Shared, SlotLayout};
use hmtt_probe::stubs::layout::{PAGE_BYTES, PATCH_BYTES, header};
use nix::unistd::Pid;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::script::Bytes;

/// Address of the memory in the process.
const START: u64 = 1 << 40;
/// Maximum number of patch records. They fit in a page.
const NOTES: u64 = PAGE_BYTES / PATCH_BYTES;
const COOKIE: u64 = 7;

/// A process that may write anything to its memory.
pub(super) struct Tracee {
    file: File,
    bytes: u64,
    slots_at: u64,
    slot_bytes: u64,
}

/// Creates a file in memory.
pub(super) fn file() -> File {
    memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("there is memory").into()
}

impl Tracee {
    /// Creates a process with `slots` slots, and its controller.
    pub fn new(shape: SlotLayout, slots: u64) -> (Tracee, Shared) {
        let before = (2 * PAGE_BYTES).next_multiple_of(shape.alignment);
        let bytes = before + slots * shape.slot_bytes + PAGE_BYTES;
        let file = file();
        file.set_len(bytes).expect("there is memory");
        let mapping = Shared::from_file(&file, bytes, Pid::this(), shape, (NOTES, COOKIE));
        let mut shared = mapping.expect("it can be mapped");
        shared.set_address(RunAddr(START), shape);
        let mut tracee = Tracee { file, bytes, slots_at: 0, slot_bytes: shape.slot_bytes };
        tracee.slots_at = tracee.long(header::SLOTS_AT);
        assert_eq!(tracee.slots_at, before);
        (tracee, shared)
    }

    /// Returns the offset of a slot in the memory.
    pub fn slot_at(&self, slot: u64) -> u64 {
        self.slots_at + slot * self.slot_bytes
    }

    /// Returns the process's address of an offset in the memory.
    pub fn address(&self, at: u64) -> u64 {
        START + at
    }

    pub fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at).expect("it is in the file");
        bytes
    }

    pub fn word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at))
    }

    pub fn long(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.read(at))
    }

    /// Reads bytes at an offset.
    pub fn bytes(&self, at: u64, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; count as usize];
        self.file.read_exact_at(&mut bytes, at).expect("it is in the file");
        bytes
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("there is memory");
    }

    /// Writes bytes of the script to any offset, or to a field of the header.
    pub fn scribble(&self, script: &mut Bytes) -> Option<()> {
        let (kind, at) = (script.byte()?, script.number(3)?);
        let bytes = script.some();
        let end = if kind & 1 == 0 { self.bytes } else { 2 * PAGE_BYTES };
        let at = (at % end).min(end - bytes.len() as u64);
        self.write(at, bytes);
        Some(())
    }
}

/// Takes a number for a process to write: a small number, an address in its memory, a number near
/// the maximum, or any number.
pub(super) fn value(script: &mut Bytes) -> Option<u64> {
    Some(match script.byte()? {
        kind @ 0..64 => u64::from(kind),
        64..128 => START + script.number(3)?,
        kind @ 128..192 => u64::MAX - u64::from(kind - 128),
        192..224 => script.number(3)?,
        _ => script.number(8)?,
    })
}
