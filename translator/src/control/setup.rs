//! Shares memory with a process that has not executed an instruction yet.

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{Backing, MappedPart, Memory};
use hmtt_probe::ptrace::{Mapping, Stopped, mappings, program_mapping};

use super::error::ControlError;
use super::gaps;
use super::memory::{ARENA_BYTES, ARENAS_AT, CodeMemory};
use crate::layout::{header, lookup};
use crate::shared::{Areas, BYTES};

/// Arenas near the program, and near the dynamic linker, below which the kernel maps libraries.
const NEAR_EACH: usize = 2;
/// Distance of arenas from the code, so that libraries fit in between.
const LIBRARIES: u64 = 512 << 20;
/// Distance above a program that leaves place for its heap.
const HEAP: u64 = 384 << 20;
/// Greatest distance of an arena's start from the code.
const FAR: u64 = 1280 << 20;
/// End of the addresses that the lookup table may have.
const TABLE_END: u64 = 0x7f00_0000;
/// Addresses for the areas of threads.
const AREAS: std::ops::Range<u64> = 0x2000_0000_0000..0x5000_0000_0000;

/// Memory that is shared with a process.
pub struct SharedMemory {
    pub code: CodeMemory,
    pub areas: Areas,
    /// Address of the lookup table.
    pub table: u32,
    /// Address ranges that are to be unmapped at the end.
    pub mapped: Vec<(RunAddr, u64)>,
}

/// Chooses the address of one more arena near code.
fn arena_place(mapped: &[Mapping], near: RunAddr) -> Option<RunAddr> {
    let (low, high) = (near.0.saturating_sub(FAR), near.0 + FAR);
    let below = near.0.checked_sub(LIBRARIES);
    let below = below.and_then(|top| gaps::below(mapped, top, low, ARENA_BYTES));
    below.or_else(|| gaps::above(mapped, near.0 + HEAP, high, ARENA_BYTES))
}

/// A mapping for memory that is to be mapped.
fn planned(start: RunAddr, bytes: u64) -> Mapping {
    Mapping {
        start,
        end: start + bytes,
        readable: true,
        writable: false,
        executable: false,
        shared: true,
        offset: 0,
        file: None,
        path: "planned".into(),
    }
}

/// Makes the process map all shared memory. `entry`: its first instruction, that of the dynamic linker if it has one.
/// `has_perf_map`: whether symbols of the code cache will be in a perf map.
///
/// # Errors
/// [`ControlError`] if there are no addresses for it, or the process does not map it.
pub fn share(
    process: &mut Stopped<'_>,
    entry: RunAddr,
    when_full: u32,
    has_perf_map: bool,
) -> Result<SharedMemory, ControlError> {
    let mut taken = mappings(process.pid)?;
    let program = program_mapping(process.pid, &taken).map_or(entry, |one| one.start);
    let kernel = taken.iter().rev().find(|one| one.executable && one.start.0 < AREAS.end * 2);
    let kernel = kernel.map_or(entry, |one| one.start);
    let mut places: Vec<RunAddr> = Vec::new();
    for near in [entry, program, kernel] {
        let is_near = |place: &&RunAddr| place.0.abs_diff(near.0) < FAR;
        while places.iter().filter(is_near).count() < NEAR_EACH {
            let place = arena_place(&taken, near).ok_or(ControlError::NoGap("translated code"))?;
            taken.push(planned(place, ARENA_BYTES));
            places.push(place);
        }
    }
    let table = gaps::below(&taken, TABLE_END, 0, lookup::BYTES);
    let table = table.ok_or(ControlError::NoGap("the lookup table"))?;
    taken.push(planned(table, lookup::BYTES));
    let base = gaps::above(&taken, AREAS.start, AREAS.end, BYTES);
    let base = base.ok_or(ControlError::NoGap("the rings of threads"))?;

    let code = share_code(process, table, &places, has_perf_map)?;
    let backing = Backing::new(process, BYTES)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let part = MappedPart { at: base, offset: 0, bytes: BYTES, protection, has_perf_map: false };
    backing.map_part(process, part)?;
    let memory = map(&backing, BYTES)?;
    backing.close(process)?;
    let mut mapped = vec![(table, lookup::BYTES), (base, BYTES)];
    mapped.extend(places.iter().map(|place| (*place, ARENA_BYTES)));
    let answer = base + u64::from(header::ANSWER);
    if let Some(thread) = process.thread_without_clock(answer)? {
        let unmap = (libc::SYS_munmap, "remove shared memory");
        for (start, bytes) in mapped {
            process.call(unmap, [start.0, bytes, 0, 0, 0, 0])?;
        }
        let what = "may not read the time stamp counter (PR_SET_TSC)";
        return Err(ControlError::Obstacle { thread, what });
    }
    let table = table.0 as u32;
    Ok(SharedMemory {
        code: CodeMemory::new(code, places),
        areas: Areas::new(memory, base, when_full),
        table,
        mapped,
    })
}

/// Makes the process map the lookup table and the arenas, which only the controller can write.
fn share_code(
    process: &mut Stopped<'_>,
    table: RunAddr,
    places: &[RunAddr],
    has_perf_map: bool,
) -> Result<Memory, ControlError> {
    let bytes = ARENAS_AT + places.len() as u64 * ARENA_BYTES;
    let backing = Backing::unsealed(process, bytes)?;
    let memory = map(&backing, bytes)?;
    backing.seal_writes()?;
    let protection = libc::PROT_READ;
    let bytes = lookup::BYTES;
    let part = MappedPart { at: table, offset: 0, bytes, protection, has_perf_map: false };
    backing.map_part(process, part)?;
    for (number, at) in places.iter().enumerate() {
        let offset = ARENAS_AT + number as u64 * ARENA_BYTES;
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let bytes = ARENA_BYTES;
        let part = MappedPart { at: *at, offset, bytes, protection, has_perf_map };
        backing.map_part(process, part)?;
    }
    backing.close(process)?;
    Ok(memory)
}

fn map(backing: &Backing, bytes: u64) -> Result<Memory, ControlError> {
    let failed = |source| ControlError::System { operation: "map shared memory", source };
    Memory::map(&backing.file, bytes).map_err(failed)
}
