//! Shares the memory that generated code needs at the start with a process whose threads are
//! stopped.
//!
//! | memory | place | why there |
//! |---|---|---|
//! | lookup table, and the first page of the arenas | the highest addresses below 2 GiB | code contains its address in 31 bits. `MAP_32BIT` (mmap(2)) searches from 1 GiB upwards; AddressSanitizer's shadow begins right below 2 GiB |
//! | arenas | within 1.25 GiB of the code that they translate, with distance for libraries and the heap | relative addresses of 31 bits |
//! | header and areas of threads | from `0x5500_0000_0000` on | nothing else is mapped there: the addresses are below all position-independent programs, and far below the addresses that the kernel chooses. They are above the heaps of Go (`0xc0_0000_0000`) and Java, and above the shadows of ThreadSanitizer, MemorySanitizer and AddressSanitizer, which end programs with mappings outside of the addresses below |
//!
//! | sanitizer | addresses at which programs may have mappings |
//! |---|---|
//! | ThreadSanitizer | up to `0x0080_0000_0000`, `0x5500_0000_0000` to `0x5680_0000_0000`, from `0x7e80_0000_0000` on |
//! | MemorySanitizer | up to `0x0100_0000_0000`, `0x5100_0000_0000` to `0x6000_0000_0000`, from `0x7000_0000_0000` on |
//! | AddressSanitizer | up to `0x7fff_8000`, from `0x1000_7fff_8000` on |

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{Backing, MappedPart, Memory, SharedFile};
use hmtt_probe::ptrace::{Stopped, mappings};

use super::error::ControlError;
use super::gaps;
use super::growth::{MappedAreas, MappedMemory};
use super::memory::{self, ARENAS_AT, CodeMemory};
use crate::layout::{PAGE_BYTES, header, lookup};
use crate::shared::{Areas, THREADS, parts};

/// End of the addresses that the lookup table may have.
const TABLE_END: u64 = 0x7ff0_0000;
/// Addresses for the areas of threads.
const AREAS: std::ops::Range<u64> = 0x5500_0000_0000..0x5550_0000_0000;

/// Memory that the controller shares with a process.
pub struct SharedMemory {
    pub code: CodeMemory,
    pub areas: Areas,
    /// Address of the lookup table.
    pub table: u32,
    pub mapped: MappedMemory,
}

/// Makes the process map the memory that is needed at the start: the lookup table, an arena near
/// its code, and an area for each thread. `near`: an address of its code. `has_perf_map`: whether
/// symbols of the code cache will be in a perf map.
///
/// # Errors
/// [`ControlError`] if there are no free addresses, the process cannot map the memory, or a thread
/// may not read the time stamp counter. Nothing is mapped then.
pub fn share(
    process: &mut Stopped<'_>,
    near: RunAddr,
    when_full: u32,
    has_perf_map: bool,
) -> Result<SharedMemory, ControlError> {
    let mappings = mappings(process.pid)?;
    let table = gaps::below(&mappings, TABLE_END, 0, lookup::BYTES + PAGE_BYTES);
    let table = table.ok_or(ControlError::NoGap("the lookup table"))?;
    let base = gaps::above(&mappings, AREAS.start, AREAS.end, parts::end(THREADS));
    let base = base.ok_or(ControlError::NoGap("the rings of threads"))?;
    let (code, code_file) = share_code(process, table)?;
    let code = CodeMemory::new(code, table + lookup::BYTES, has_perf_map);
    let (areas, areas_file) = share_areas(process, base)?;
    let mapped = MappedMemory {
        code: vec![(table, lookup::BYTES + PAGE_BYTES)],
        code_file,
        areas: MappedAreas::new(areas_file, base),
    };
    let areas = Areas::new(areas, base, when_full);
    let mut shared = SharedMemory { code, areas, table: table.0 as u32, mapped };
    let completed = shared.complete(process, near);
    if completed.is_err() {
        shared.mapped.unmap(process);
    }
    completed.map(|()| shared)
}

impl SharedMemory {
    /// Maps the first arena, and an area for each thread.
    fn complete(&mut self, process: &mut Stopped<'_>, near: RunAddr) -> Result<(), ControlError> {
        let answer = self.mapped.areas.base() + u64::from(header::ANSWER);
        if let Some(thread) = process.thread_without_clock(answer)? {
            let what = "may not read the time stamp counter (PR_SET_TSC)";
            return Err(ControlError::Obstacle { thread, what });
        }
        let first = self.code.next(&mappings(process.pid)?, near);
        let first = first.ok_or(ControlError::NoGap("translated code"))?;
        self.mapped.code_file.map_copy(process, first)?;
        self.mapped.code.push((first.at, first.bytes));
        self.code.add(first);
        let threads = process.threads.len().min(THREADS);
        (0..threads).try_for_each(|_| self.mapped.areas.map_next(process))
    }
}

/// Makes the process map the lookup table, and after it the first page of the arenas. Only the
/// controller can write this memory.
fn share_code(
    process: &mut Stopped<'_>,
    table: RunAddr,
) -> Result<(Memory, SharedFile), ControlError> {
    let backing = Backing::unsealed(process, memory::BYTES)?;
    let memory = map(&backing, memory::BYTES)?;
    backing.seal_writes()?;
    let (bytes, protection) = (lookup::BYTES, libc::PROT_READ);
    backing.map_part(process, MappedPart { at: table, offset: 0, bytes, protection })?;
    let (at, protection) = (table + bytes, libc::PROT_READ | libc::PROT_EXEC);
    let first = MappedPart { at, offset: ARENAS_AT, bytes: PAGE_BYTES, protection };
    backing.map_part(process, first)?;
    backing.close(process)?;
    Ok((memory, SharedFile::new(&backing)?))
}

/// Makes the process map the header of the areas.
fn share_areas(
    process: &mut Stopped<'_>,
    base: RunAddr,
) -> Result<(Memory, SharedFile), ControlError> {
    let backing = Backing::new(process, parts::BYTES)?;
    let (bytes, protection) = (parts::CHUNKS_AT, libc::PROT_READ | libc::PROT_WRITE);
    backing.map_part(process, MappedPart { at: base, offset: 0, bytes, protection })?;
    let memory = map(&backing, parts::BYTES)?;
    backing.close(process)?;
    Ok((memory, SharedFile::new(&backing)?))
}

fn map(backing: &Backing, bytes: u64) -> Result<Memory, ControlError> {
    let failed = |source| ControlError::System { operation: "map shared memory", source };
    Memory::map(&backing.file, bytes).map_err(failed)
}
