//! Reads the dynamic linker's records of a process: loaded files, and the function that it calls when it has loaded
//! one.
//!
//! The kernel reports the address of the program headers (`/proc/PID/auxv`). The program's dynamic section leads to the
//! record that the linker keeps for debuggers (`r_debug` of `link.h`), which has the address of a function that does
//! nothing and is called whenever files are loaded or unloaded.

use std::collections::BTreeMap;

use object::elf::{DT_DEBUG, PT_DYNAMIC, PT_PHDR};

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::elf::{Function, Image};
use crate::ptrace::{self, PtraceError, Stopped};

/// `AT_PHDR` and `AT_PHNUM` (getauxval(3)).
const HEADERS: u64 = 3;
const COUNT: u64 = 5;
/// Bytes of a program header, and the offset of the address in it (ELF-64, "Program Header").
const HEADER_BYTES: u64 = 56;
const ADDRESS: usize = 16;
/// Offset of the function's address in `r_debug`.
const FUNCTION: u64 = 16;
/// Offset of the linker's state in `r_debug`, and the states in which files are being loaded or unloaded (`RT_ADD`,
/// `RT_DELETE`).
const STATE: u64 = 24;
const ADDS: u32 = 1;
const DELETES: u32 = 2;
/// Offset of the first file's record in `r_debug`, and of the next record's address in a record.
const FIRST_MAP: u64 = 8;
const NEXT_MAP: u64 = 24;
/// Most records that are read.
const MAPS: usize = 1 << 12;
/// Name of that function in glibc and musl, which export it for debuggers.
const NOTIFIER: &str = "_dl_debug_state";
/// Most entries of a dynamic section that are read.
const ENTRIES: u64 = 1 << 10;

/// Address of the function that is called when files are loaded or unloaded; `None` for static programs, and before the
/// linker has run.
pub(super) fn notifier(process: &Stopped<'_>) -> Result<Option<RunAddr>, PtraceError> {
    let Some(debug) = debug_record(process)? else { return Ok(None) };
    let address = read_word(process, debug + FUNCTION)?;
    Ok(Some(RunAddr(address)).filter(|_| address != 0))
}

/// Whether the linker is loading or unloading files. It calls the function again when that is done.
pub(super) fn is_changing(process: &Stopped<'_>) -> Result<bool, PtraceError> {
    let Some(debug) = debug_record(process)? else { return Ok(false) };
    let mut state = [0; 4];
    process.read(debug + STATE, &mut state)?;
    Ok([ADDS, DELETES].contains(&u32::from_le_bytes(state)))
}

/// Address of the linker's record (`struct link_map` of `link.h`) of the file with a load bias; `None` if there is
/// none.
pub(super) fn link_map(process: &Stopped<'_>, bias: LoadBias) -> Option<RunAddr> {
    let first = debug_record(process).ok()?? + FIRST_MAP;
    let mut map = RunAddr(read_word(process, first).ok()?);
    for _ in 0..MAPS {
        if map == RunAddr(0) {
            break;
        }
        if LoadBias::new(read_word(process, map).ok()?) == bias {
            return Some(map);
        }
        map = RunAddr(read_word(process, map.checked_add(NEXT_MAP)?).ok()?);
    }
    None
}

fn read_word(process: &Stopped<'_>, address: RunAddr) -> Result<u64, PtraceError> {
    let mut bytes = [0; 8];
    process.read(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Address of the linker's record for debuggers; `None` for static programs, and before the linker has run.
fn debug_record(process: &Stopped<'_>) -> Result<Option<RunAddr>, PtraceError> {
    let failed = |source| PtraceError::System {
        pid: process.pid,
        operation: "read the address of its program headers",
        source,
    };
    let bytes = ptrace::proc::read(process.pid, "auxv").map_err(failed)?;
    let pairs: BTreeMap<u64, u64> =
        bytes.as_chunks::<16>().0.iter().map(|pair| (word(pair, 0), word(pair, 8))).collect();
    let (Some(headers), Some(count)) = (pairs.get(&HEADERS), pairs.get(&COUNT)) else {
        return Ok(None);
    };
    let headers = RunAddr(*headers);
    let (mut bias, mut dynamic) = (None, None);
    for number in 0..*count {
        let mut header = [0; HEADER_BYTES as usize];
        process.read(headers + number * HEADER_BYTES, &mut header)?;
        let address = FileAddr(word(&header, ADDRESS));
        match word(&header, 0) as u32 {
            PT_PHDR => bias = Some(LoadBias::between(address, headers)),
            PT_DYNAMIC => dynamic = Some(address),
            _ => {}
        }
    }
    // Programs that are their own linker (`-static-pie`) have no `PT_PHDR` header.
    let (Some(bias), Some(dynamic)) = (bias, dynamic) else { return Ok(None) };
    for number in 0..ENTRIES {
        let mut entry = [0; 16];
        process.read(bias.to_run(dynamic) + number * 16, &mut entry)?;
        match (word(&entry, 0), word(&entry, 8)) {
            (0, _) => break,
            (tag, debug) if tag == u64::from(DT_DEBUG) && debug != 0 => {
                return Ok(Some(RunAddr(debug)));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The function that is called when files are loaded or unloaded, in the dynamic linker's file. For use before the
/// linker has run.
pub(super) fn notifier_in(image: &Image) -> Option<&Function> {
    image.functions.iter().find(|one| one.symbols.iter().any(|symbol| symbol == NOTIFIER))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
