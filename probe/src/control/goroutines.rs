//! Finds the addresses at which interrupted goroutines of a Go process will resume.
//!
//! The runtime interrupts a goroutine anywhere: a signal handler makes it call
//! `runtime.asyncPreempt`, which saves all registers on the goroutine's stack and lets another
//! goroutine run. No thread's registers show where the goroutine will resume. A jump may begin at
//! this address, but must not extend over it: the goroutine would resume in the middle of the jump.
//!
//! Every word of the process's anonymous memory that equals the return address of the call in
//! `asyncPreempt` is assumed to be in such a stack frame. The resume address is at a fixed distance
//! from this word. A word that is equal by chance only prevents a jump.
//!
//! Only pages that the process has touched are read, once each. All threads are stopped meanwhile.
//! A process that has touched more than [`MEMORY_BYTES`] is refused: without the search, a jump
//! might be where a goroutine will resume.

use iced_x86::{Mnemonic, Register};
use memchr::memmem;

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{bytes_of, instructions, is_call};
use crate::elf::Image;
use crate::ptrace::search::for_each_piece;
use crate::ptrace::search_budget::SearchBudget;
use crate::ptrace::touched::TouchedPages;
use crate::ptrace::{Mapping, PtraceError, ReadMemory, mappings};

/// Function that saves the registers.
const SAVER: &str = "runtime.asyncPreempt";
/// Bytes of an address, and of a word on the stack.
const WORD: u64 = 8;
/// Maximum number of bytes of memory that are read. Reading 1 GiB takes about half a second.
const MEMORY_BYTES: u64 = 16 << 30;

/// Return address of the call in `asyncPreempt`, and the distance in bytes from its place on the
/// stack to the place of the resume address.
fn saved_context(image: &Image) -> Option<(FileAddr, u64)> {
    let start = image.go.as_ref()?.start_of(SAVER)?;
    let bytes = bytes_of(image, start, image.function_at(start)?.size)?;
    let mut depth = WORD;
    for instruction in instructions(bytes, start) {
        match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushfq => depth += WORD,
            Mnemonic::Sub if instruction.op0_register() == Register::RSP => {
                depth += instruction.try_immediate(1).ok()?;
            }
            Mnemonic::Lea if instruction.op0_register() == Register::RSP => return None,
            _ if is_call(&instruction) => return Some((FileAddr(instruction.next_ip()), depth)),
            _ => {}
        }
    }
    None
}

/// Addresses, in the file, at which interrupted goroutines of a program will resume; all threads
/// are stopped.
///
/// # Errors
/// [`PtraceError`] if the mappings of the process cannot be read; [`PtraceError::TooMuchMemory`] if
/// the process has touched more memory than is searched.
pub(super) fn resume_addresses(
    memory: &impl ReadMemory,
    image: &Image,
    bias: LoadBias,
) -> Result<Vec<FileAddr>, PtraceError> {
    let Some((address, distance)) = saved_context(image) else { return Ok(Vec::new()) };
    let mapped = mappings(memory.pid())?;
    let pages = TouchedPages::open(memory.pid());
    let mut budget = SearchBudget::new(memory.pid(), "memory of Go", MEMORY_BYTES);
    let saved = (bias.to_run(address), distance);
    let resumed = resume_places(memory, &pages, &mapped, saved, &mut budget)?;
    Ok(resumed.into_iter().map(|address| bias.to_file(address)).collect())
}

/// Returns the resume address of each frame: for each word that equals `wanted`, the word
/// `distance` bytes from it.
fn resume_places(
    memory: &impl ReadMemory,
    pages: &TouchedPages,
    mapped: &[Mapping],
    (wanted, distance): (RunAddr, u64),
    budget: &mut SearchBudget,
) -> Result<Vec<RunAddr>, PtraceError> {
    let wanted = memmem::Finder::new(&wanted.0.to_le_bytes()).into_owned();
    let mut places = Vec::new();
    for mapping in mapped.iter().filter(|mapping| is_own(mapping)) {
        let whole = (mapping, mapping.start..mapping.end);
        for_each_piece(memory, pages, whole, 0, budget, |at, _, bytes, budget| {
            let mut from = 0;
            while let Some(position) = wanted.find(&bytes[from..]) {
                let place = at + (from + position) as u64;
                from += position + 1;
                if !place.0.is_multiple_of(WORD) {
                    continue;
                }
                // In a page full of such words, each word costs as much as reading a page.
                budget.take(WORD)?;
                let mut resume_at = [0; WORD as usize];
                if memory.read(place.wrapping_add(distance), &mut resume_at).is_ok() {
                    places.push(RunAddr(u64::from_le_bytes(resume_at)));
                }
            }
            Ok(())
        })?;
    }
    Ok(places)
}

/// Whether a mapping may contain stacks: writable memory without a file.
fn is_own(mapping: &Mapping) -> bool {
    mapping.writable && !mapping.path.is_absolute()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nix::errno::Errno;
    use nix::unistd::Pid;

    use super::*;

    /// The return address and its distance from the resume address, in this test.
    const SAVED: (RunAddr, u64) = (RunAddr(0x1122_3344_5566_7788), 16);
    /// Bytes that a reservation has.
    const RESERVED: usize = 64 << 30;

    /// Memory of this process, which counts what is read.
    #[derive(Default)]
    struct Own {
        bytes_read: Cell<usize>,
    }

    impl ReadMemory for Own {
        fn pid(&self) -> Pid {
            Pid::this()
        }

        fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
            self.bytes_read.set(self.bytes_read.get() + bytes.len());
            let memory = crate::ptrace::RunningMemory::open(self.pid());
            let failed = |_| PtraceError::new(self.pid(), "open its memory")(Errno::EIO);
            memory.map_err(failed)?.read(address, bytes)
        }
    }

    #[test]
    fn only_touched_memory_is_searched_and_no_more_than_a_budget() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the mapping is new.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), RESERVED, protection, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        let start = RunAddr(memory as u64);
        let frame = start + RESERVED as u64 / 2;
        for (at, word) in [(0, SAVED.0.0), (SAVED.1, 0x4321)] {
            // SAFETY: the place is within the mapping, which is used only here.
            unsafe { ((frame.0 + at) as *mut u64).write_volatile(word) };
        }
        let mapping = Mapping {
            start,
            end: start + RESERVED as u64,
            readable: true,
            writable: true,
            executable: false,
            shared: false,
            offset: 0,
            file: None,
            path: "".into(),
        };
        let mapped = std::slice::from_ref(&mapping);
        let own = Own::default();
        let pages = TouchedPages::open(own.pid());
        let (parts, _) = pages
            .first_parts(
                &mapping,
                &(start..mapping.end),
                &mut SearchBudget::new(own.pid(), "pages", u64::MAX),
            )
            .unwrap();
        // A kernel without page maps shows the whole mapping.
        if parts != [start..mapping.end] {
            let mut budget = SearchBudget::new(own.pid(), "memory", 4 << 20);
            let resumed = resume_places(&own, &pages, mapped, SAVED, &mut budget).unwrap();
            assert_eq!(resumed, [RunAddr(0x4321)]);
            assert!(own.bytes_read.get() <= 4 << 20, "{}", own.bytes_read.get());
        }
        // The search ends when its budget is used up. This memory only counts the bytes and touches
        // no page.
        let counted = Counted::default();
        let mut budget = SearchBudget::new(own.pid(), "memory", 64 << 20);
        let pages = TouchedPages::all();
        let error = resume_places(&counted, &pages, mapped, SAVED, &mut budget).unwrap_err();
        assert!(matches!(error, PtraceError::TooMuchMemory { .. }), "{error}");
        assert_eq!(counted.bytes_read.get(), 64 << 20);
        // SAFETY: nothing refers to the mapping any more.
        assert_eq!(unsafe { libc::munmap(memory, RESERVED) }, 0);
    }

    /// Memory that cannot be read, where attempts are counted.
    #[derive(Default)]
    struct Counted {
        bytes_read: Cell<usize>,
    }

    impl ReadMemory for Counted {
        fn pid(&self) -> Pid {
            Pid::this()
        }

        fn read(&self, _: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
            self.bytes_read.set(self.bytes_read.get() + bytes.len());
            Ok(())
        }
    }
}
