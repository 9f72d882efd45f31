//! A process of Go to where its goroutines go on that were interrupted, and do not run.
//!
//! The runtime interrupts a goroutine anywhere: a signal handler makes it call `runtime.asyncPreempt`, which saves all
//! registers on the goroutine's stack and lets another one run. No thread's registers say where it will go on, so
//! nothing may be overwritten there but an instruction's first byte. Found are all words of the process's own memory
//! that are return addresses of the call in `asyncPreempt`, each at a known distance from where the goroutine goes
//! on. What only looks like one makes a jump impossible somewhere, and does no other harm.

use iced_x86::{Mnemonic, Register};

use crate::disassembly::{bytes_of, instructions, is_call};
use crate::elf::Image;
use crate::ptrace::{Mapping, Process, PtraceError, mappings};

/// The function that saves the registers.
const SAVER: &str = "runtime.asyncPreempt";
/// Bytes of an address, and of a word on the stack.
const WORD: u64 = 8;
/// How much memory is read at a time.
const PIECE: usize = 1 << 20;

/// The return address of the call, and how far above it on the stack the goroutine's address is.
fn saved(image: &Image) -> Option<(u64, u64)> {
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
            _ if is_call(&instruction) => return Some((instruction.next_ip(), depth)),
            _ => {}
        }
    }
    None
}

/// Where in a program, as addresses of its file, goroutines go on that were interrupted; all threads are stopped.
///
/// # Errors
/// [`PtraceError`] if it cannot be found out what memory the process has.
pub(super) fn interrupted(
    process: &Process,
    image: &Image,
    bias: u64,
) -> Result<Vec<u64>, PtraceError> {
    let Some((address, distance)) = saved(image) else { return Ok(Vec::new()) };
    let wanted = address.wrapping_add(bias).to_le_bytes();
    let mut all = Vec::new();
    for Mapping { start, end, .. } in mappings(process.pid)?.iter().filter(|one| is_own(one)) {
        let mut bytes = vec![0; PIECE];
        for at in (*start..*end).step_by(PIECE) {
            let piece = &mut bytes[..PIECE.min((end - at) as usize)];
            if process.read(at, piece).is_err() {
                continue;
            }
            let words = (at..).step_by(WORD as usize).zip(piece.as_chunks().0);
            for (place, _) in words.filter(|(_, word)| **word == wanted) {
                let mut goes_on = [0; WORD as usize];
                if process.read(place.wrapping_add(distance), &mut goes_on).is_ok() {
                    all.push(u64::from_le_bytes(goes_on).wrapping_sub(bias));
                }
            }
        }
    }
    Ok(all)
}

/// Whether stacks may be there: memory that is no file's.
fn is_own(mapping: &Mapping) -> bool {
    mapping.writable && !mapping.path.is_absolute()
}
