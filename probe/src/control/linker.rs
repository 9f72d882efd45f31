//! Reads the dynamic linker's records of a process: the loaded files, and the function that the
//! linker calls when it has loaded a file.
//!
//! The kernel reports the address of the program headers (`/proc/PID/auxv`). The program's dynamic
//! section leads to the record that the linker keeps for debuggers (`r_debug` of `link.h`). The
//! record has the address of a function that does nothing and is called whenever files are loaded
//! or unloaded.
//!
//! Invariant: the process can set all these addresses and numbers to anything (`PR_SET_MM` sets
//! what `/proc/PID/auxv` shows). So every read has an upper limit, an address that is not mapped
//! ends the search, and no arithmetic overflows. A process with false records has no known linker.

use std::collections::BTreeMap;

use object::elf::{DT_DEBUG, PT_DYNAMIC, PT_PHDR};

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::elf::{Function, Image};
use crate::ptrace::{self, PtraceError, ReadMemory, Stopped};

/// `AT_PHDR` and `AT_PHNUM` (getauxval(3)).
const HEADERS: u64 = 3;
const COUNT: u64 = 5;
/// Bytes of a program header, and the offset of the address in it (ELF-64, "Program Header").
const HEADER_BYTES: u64 = 56;
const ADDRESS: usize = 16;
/// Maximum number of program headers of a process. Linux executes no file that has more than 64 KiB
/// of them (`load_elf_phdrs`).
const MAX_HEADERS: u64 = (64 << 10) / HEADER_BYTES;
/// Offset of the function's address in `r_debug`.
const FUNCTION: u64 = 16;
/// Offset of the linker's state in `r_debug`, and the states in which files are being loaded or
/// unloaded (`RT_ADD`, `RT_DELETE`).
const STATE: u64 = 24;
const ADDS: u32 = 1;
const DELETES: u32 = 2;
/// Offset of the first file's record in `r_debug`, and offset of the next record's address in a
/// record.
const FIRST_MAP: u64 = 8;
const NEXT_MAP: u64 = 24;
/// Maximum number of records that are read.
const MAPS: usize = 1 << 12;
/// Name of the function that the linker calls, in glibc and musl. Both export it for debuggers.
const NOTIFIER: &str = "_dl_debug_state";
/// Maximum number of entries of a dynamic section that are read.
const ENTRIES: u64 = 1 << 10;

/// Address of the function that is called when files are loaded or unloaded; `None` for static
/// programs, and before the linker has run.
pub(super) fn notifier(process: &Stopped<'_>) -> Result<Option<RunAddr>, PtraceError> {
    let Some(debug) = debug_record(process)? else { return Ok(None) };
    let address = read_at::<8>(process, debug.checked_add(FUNCTION))?.map(u64::from_le_bytes);
    Ok(address.filter(|address| *address != 0).map(RunAddr))
}

/// Whether the linker is loading or unloading files. It calls the function again when it has
/// finished.
pub(super) fn is_changing(process: &Stopped<'_>) -> Result<bool, PtraceError> {
    let Some(debug) = debug_record(process)? else { return Ok(false) };
    let state = read_at::<4>(process, debug.checked_add(STATE))?.map(u32::from_le_bytes);
    Ok(state.is_some_and(|state| [ADDS, DELETES].contains(&state)))
}

/// Address of the linker's record (`struct link_map` of `link.h`) for the file with this load bias;
/// `None` if there is none.
pub(super) fn link_map(process: &Stopped<'_>, bias: LoadBias) -> Option<RunAddr> {
    let first = debug_record(process).ok()??.checked_add(FIRST_MAP);
    let word = |address| read_at::<8>(process, address).ok()?.map(u64::from_le_bytes);
    let mut map = RunAddr(word(first)?);
    for _ in 0..MAPS {
        if map == RunAddr(0) {
            break;
        }
        if LoadBias::new(word(Some(map))?) == bias {
            return Some(map);
        }
        map = RunAddr(word(map.checked_add(NEXT_MAP))?);
    }
    None
}

/// Reads bytes at an address; `None` if the address is unknown or not mapped.
fn read_at<const BYTES: usize>(
    memory: &impl ReadMemory,
    address: Option<RunAddr>,
) -> Result<Option<[u8; BYTES]>, PtraceError> {
    let mut bytes = [0; BYTES];
    let Some(address) = address else { return Ok(None) };
    match memory.read(address, &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error @ PtraceError::Ended(_)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Address of the linker's record for debuggers; `None` for static programs, and before the linker
/// has run.
fn debug_record(process: &Stopped<'_>) -> Result<Option<RunAddr>, PtraceError> {
    let failed = |source| PtraceError::System {
        pid: process.pid,
        operation: "read the address of its program headers",
        source,
    };
    let bytes = ptrace::proc::read(ptrace::live_thread(process.pid), "auxv").map_err(failed)?;
    record_in(process, &bytes)
}

/// Finds the debug record as [`debug_record`] does. `auxv`: contents of `/proc/PID/auxv`.
fn record_in(memory: &impl ReadMemory, auxv: &[u8]) -> Result<Option<RunAddr>, PtraceError> {
    let pairs: BTreeMap<u64, u64> =
        auxv.as_chunks::<16>().0.iter().map(|pair| (word(pair, 0), word(pair, 8))).collect();
    let (Some(headers), Some(count)) = (pairs.get(&HEADERS), pairs.get(&COUNT)) else {
        return Ok(None);
    };
    let headers = RunAddr(*headers);
    let (mut bias, mut dynamic) = (None, None);
    for number in 0..MAX_HEADERS.min(*count) {
        let place = headers.checked_add(number * HEADER_BYTES);
        let header = read_at::<{ HEADER_BYTES as usize }>(memory, place)?;
        let Some(header) = header else { break };
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
        let place = bias.to_run(dynamic).checked_add(number * 16);
        let Some(entry) = read_at::<16>(memory, place)? else { break };
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

/// The function that is called when files are loaded or unloaded, in the dynamic linker's file. For
/// use before the linker has run.
pub(super) fn notifier_in(image: &Image) -> Option<&Function> {
    image.functions.iter().find(|function| function.symbols.iter().any(|symbol| symbol == NOTIFIER))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nix::errno::Errno;
    use nix::unistd::Pid;

    use super::*;

    /// Memory of zeros with some words, which refuses to be read without end.
    struct Memory {
        mapped: std::ops::Range<u64>,
        words: BTreeMap<u64, u64>,
        bytes_read: Cell<usize>,
    }

    impl ReadMemory for Memory {
        fn pid(&self) -> Pid {
            Pid::this()
        }

        fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
            self.bytes_read.set(self.bytes_read.get() + bytes.len());
            assert!(self.bytes_read.get() <= 128 << 10, "too much is read");
            let end = address.0.checked_add(bytes.len() as u64);
            if address.0 < self.mapped.start || end.is_none_or(|end| end > self.mapped.end) {
                return Err(PtraceError::new(self.pid(), "read its memory")(Errno::EIO));
            }
            let words = (address.0..).step_by(8).zip(bytes.chunks_mut(8));
            for (at, bytes) in words {
                let word = self.words.get(&at).copied().unwrap_or_default().to_le_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
            Ok(())
        }
    }

    fn memory(mapped: std::ops::Range<u64>, words: &[(u64, u64)]) -> Memory {
        Memory { mapped, words: words.iter().copied().collect(), bytes_read: Cell::default() }
    }

    fn auxv(headers: u64, count: u64) -> Vec<u8> {
        [HEADERS, headers, COUNT, count, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_record_is_found_and_false_records_are_not_followed() {
        const AT: u64 = 0x40_0000;
        let (second, dynamic) = (AT + HEADER_BYTES, AT + 0x1000);
        let words = [
            (AT, u64::from(PT_PHDR)),
            (AT + 16, 0),
            (second, u64::from(PT_DYNAMIC)),
            (second + 16, 0x1000),
            (dynamic, 5),
            (dynamic + 16, u64::from(DT_DEBUG)),
            (dynamic + 24, 0x7777),
        ];
        let right = memory(AT..AT + 0x2000, &words);
        let record = |memory: &Memory, count| record_in(memory, &auxv(AT, count)).unwrap();
        assert_eq!(record(&right, 2), Some(RunAddr(0x7777)));
        assert_eq!(record(&right, 1), None);
        // More headers than are mapped.
        assert_eq!(record(&right, u64::MAX), Some(RunAddr(0x7777)));
        // A dynamic section that is not mapped, at the end of the address space, without an end.
        for at in [0x9_0000, u64::MAX - 8 - AT, 0x2000 - 16] {
            let words = [&words[..3], &[(second + 16, at)]].concat();
            assert_eq!(record(&memory(AT..AT + 0x2000, &words), 2), None);
        }
        assert_eq!(record_in(&right, &auxv(u64::MAX - 8, 9)).unwrap(), None);
    }

    #[test]
    fn headers_without_end_are_not_read() {
        let endless = memory(0..u64::MAX, &[]);
        assert_eq!(record_in(&endless, &auxv(1 << 20, (1 << 44) / HEADER_BYTES)).unwrap(), None);
        assert_eq!(endless.bytes_read.get() as u64, MAX_HEADERS * HEADER_BYTES);
    }
}
