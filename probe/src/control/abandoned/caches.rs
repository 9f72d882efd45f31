//! Finds memory and threads that a killed `hmtt monitor`, `hmtt trace` or `hmtt-sim record` has
//! left in a process, and moves the threads back to original code.
//!
//! A thread without a controller leaves the code cache where it needs a block that was not
//! translated, or a chunk of its ring. It then executes original code with original registers, but
//! `gs` still leads to its thread area. A thread that is within a system call of the cache returns
//! into the cache; it can wait in the call for years. Behind that call the cache has one of two
//! sequences (`translator/src/emit/ends.rs`), which show where the program continues:
//!
//! ```text
//! lea rcx, [rip + record]   record: original address; `r15` is the ring's pointer, the program's is in the thread area
//! mov ecx or rcx, address   without a ring
//! ```
//!
//! Invariant: the process may have forged all of this memory. Only registers of its own threads,
//! and mappings with the name of a cache, depend on it.

use std::collections::BTreeSet;
use std::ops::Range;

use nix::unistd::Pid;

use super::super::shared::backing::is_tag_memory;
use crate::address::RunAddr;
use crate::ptrace::{FileId, Mapping, PtraceError, ReadMemory, Stopped};
use crate::stubs::layout::{MAGIC, PAGE_BYTES};

/// Offset in a thread area of the program's `r15`, which the translator asserts.
pub const SAVED_R15: u64 = 8 * 15;
/// Range of addresses at which any version maps thread areas.
const AREAS: Range<RunAddr> = RunAddr(0x2000_0000_0000)..RunAddr(0x6000_0000_0000);
/// Bytes of the instruction `syscall`.
const CALL: [u8; 2] = [0x0f, 0x05];
/// Bytes from the instruction of a system call to the end of the longest sequence behind it.
const SEQUENCE: usize = 12;

/// Memory of code caches in a process.
#[derive(Debug, Default)]
pub struct Caches {
    /// Generated code.
    pub code: Vec<Range<RunAddr>>,
    /// Lookup tables, headers and thread areas.
    pub data: Vec<Range<RunAddr>>,
}

/// State of a thread that continues in original code behind a system call of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Continuation {
    next: u64,
    has_ring: bool,
}

fn contain(ranges: &[Range<RunAddr>], address: RunAddr) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

impl Caches {
    /// Finds the memory of caches. `mapped`: all mappings of the process.
    pub fn find(memory: &impl ReadMemory, mapped: &[Mapping]) -> Self {
        let ours =
            || mapped.iter().filter(|mapping| mapping.shared && is_tag_memory(&mapping.path));
        let mut of_tags = BTreeSet::<Option<FileId>>::new();
        let mut without_header = BTreeSet::new();
        for mapping in ours().filter(|mapping| mapping.offset == 0) {
            let mut first = [0; 8];
            let is_read = memory.read(mapping.start, &mut first).is_ok();
            match u64::from_le_bytes(first) {
                MAGIC if is_read => drop(of_tags.insert(mapping.file)),
                // The mapping may belong to tags or to a cache. It is removed with the memory of
                // tags.
                0 => drop(without_header.insert(mapping.start)),
                _ => {}
            }
        }
        let mut caches = Caches::default();
        let is_cache = |mapping: &&Mapping| {
            !of_tags.contains(&mapping.file) && !without_header.contains(&mapping.start)
        };
        for mapping in ours().filter(is_cache) {
            let of_kind = if mapping.executable { &mut caches.code } else { &mut caches.data };
            of_kind.push(mapping.start..mapping.end);
        }
        caches
    }

    /// Whether the process has no memory of caches.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty() && self.data.is_empty()
    }

    /// Moves stopped threads that are within a system call of a cache to the original code behind
    /// that call.
    ///
    /// # Errors
    /// [`PtraceError`] if registers cannot be read or set.
    pub fn leave_calls(&self, process: &Stopped<'_>) -> Result<(), PtraceError> {
        let threads: Vec<Pid> = process.threads.keys().copied().collect();
        for thread in threads {
            let registers = process.registers(thread)?;
            let at = RunAddr(registers.rip);
            let is_in_call = registers.orig_rax.cast_signed() >= 0 && contain(&self.code, at);
            let Some(continuation) = is_in_call.then(|| self.continuation(process, at)).flatten()
            else {
                continue;
            };
            let mut r15 = registers.r15;
            if continuation.has_ring {
                let Some(saved) = self.saved_r15(process, registers.gs_base) else { continue };
                r15 = saved;
            }
            let Continuation { next, .. } = continuation;
            let original =
                libc::user_regs_struct { rip: next, rcx: next, r15, gs_base: 0, ..registers };
            process.set_registers(thread, original)?;
        }
        Ok(())
    }

    /// Reads the sequence at an address behind a system call. `None` if there is no such sequence.
    fn continuation(&self, memory: &impl ReadMemory, at: RunAddr) -> Option<Continuation> {
        let mut bytes = [0; SEQUENCE];
        memory.read(RunAddr(at.0.checked_sub(CALL.len() as u64)?), &mut bytes).ok()?;
        let behind = bytes.strip_prefix(&CALL)?;
        let without_ring = |next| Some(Continuation { next, has_ring: false });
        match *behind {
            [0x48, 0x8d, 0x0d, a, b, c, d, ..] => {
                let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
                let record = RunAddr((at.0 + 7).wrapping_add_signed(distance));
                let mut next = [0; 8];
                memory.read(record, &mut next).ok().filter(|()| contain(&self.code, record))?;
                Some(Continuation { next: u64::from_le_bytes(next), has_ring: true })
            }
            [0xb9, a, b, c, d, ..] => without_ring(u32::from_le_bytes([a, b, c, d]).into()),
            [0x48, 0xc7, 0xc1, a, b, c, d, ..] => {
                without_ring(i64::from(i32::from_le_bytes([a, b, c, d])).cast_unsigned())
            }
            [0x48, 0xb9, a, b, c, d, e, f, g, h] => {
                without_ring(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
            }
            _ => None,
        }
    }

    /// The program's `r15` that is saved in the thread area at an address; `None` if the address is
    /// in no cache.
    fn saved_r15(&self, memory: &impl ReadMemory, area: u64) -> Option<u64> {
        let place = RunAddr(area.checked_add(SAVED_R15)?);
        let mut value = [0; 8];
        let is_read = contain(&self.data, place) && memory.read(place, &mut value).is_ok();
        is_read.then(|| u64::from_le_bytes(value))
    }
}

/// Threads whose `gs` leads to an address of a thread area where nothing is mapped. Their process
/// is a child of a process whose controller was killed; children have no copy of thread areas.
///
/// # Errors
/// [`PtraceError`] if registers cannot be read.
pub fn threads_with_lost_areas(
    process: &Stopped<'_>,
    mapped: &[Mapping],
) -> Result<Vec<Pid>, PtraceError> {
    let mut lost = Vec::new();
    for thread in process.threads.keys() {
        let base = RunAddr(process.registers(*thread)?.gs_base);
        let is_area = AREAS.contains(&base) && base.0.is_multiple_of(PAGE_BYTES);
        if is_area && !mapped.iter().any(|mapping| (mapping.start..mapping.end).contains(&base)) {
            lost.push(*thread);
        }
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory at address 0x1000.
    struct Bytes(Vec<u8>);

    impl ReadMemory for Bytes {
        fn pid(&self) -> Pid {
            Pid::this()
        }

        fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
            let at = address.0.checked_sub(0x1000).map(|at| at as usize);
            let source = at.and_then(|at| self.0.get(at..at.checked_add(bytes.len())?));
            source
                .map(|source| bytes.copy_from_slice(source))
                .ok_or(PtraceError::Ended(Pid::this()))
        }
    }

    /// What follows `syscall` at 0x1000.
    fn behind(sequence: &[u8]) -> Option<Continuation> {
        let mut bytes = [&CALL, sequence].concat();
        bytes.resize(0x40, 0xcc);
        bytes[0x20..0x28].copy_from_slice(&0x1122_3344_5566u64.to_le_bytes());
        let caches = Caches { code: vec![RunAddr(0x1000)..RunAddr(0x1040)], data: Vec::new() };
        caches.continuation(&Bytes(bytes), RunAddr(0x1002))
    }

    #[test]
    fn the_original_address_behind_a_system_call_is_found() {
        let continuation = |next, has_ring| Some(Continuation { next, has_ring });
        assert_eq!(
            behind(&[0x48, 0x8d, 0x0d, 0x17, 0, 0, 0]),
            continuation(0x1122_3344_5566, true)
        );
        assert_eq!(behind(&[0xb9, 0, 0, 0x40, 0]), continuation(0x40_0000, false));
        assert_eq!(
            behind(&[0x48, 0xc7, 0xc1, 0, 0, 0, 0x80]),
            continuation(0xffff_ffff_8000_0000, false)
        );
        assert_eq!(
            behind(&[0x48, 0xb9, 1, 2, 3, 4, 5, 0x7f, 0, 0]),
            continuation(0x7f05_0403_0201, false)
        );
    }

    #[test]
    fn other_places_are_no_system_calls_of_a_cache() {
        // A record outside of the cache, and other instructions.
        for sequence in [&[0x48, 0x8d, 0x0d, 0, 1, 0, 0][..], &[0x90], &[]] {
            assert_eq!(behind(sequence), None, "{sequence:x?}");
        }
    }
}
