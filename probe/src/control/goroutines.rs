//! Finds the addresses at which interrupted goroutines of a Go process will resume.
//!
//! The runtime interrupts a goroutine anywhere: a signal handler makes it call `runtime.asyncPreempt`, which saves all
//! registers on the goroutine's stack and lets another goroutine run. No thread's registers show where the goroutine
//! will resume, so at that address nothing but the first byte of an instruction may be overwritten.
//!
//! Every word of the process's anonymous memory that equals the return address of the call in `asyncPreempt` is taken
//! for such a stack frame, with the resume address at a fixed distance. A word that is equal by chance only prevents a
//! jump.

use iced_x86::{Mnemonic, Register};

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{bytes_of, instructions, is_call};
use crate::elf::Image;
use crate::ptrace::{Mapping, PtraceError, ReadMemory, mappings};

/// Function that saves the registers.
const SAVER: &str = "runtime.asyncPreempt";
/// Bytes of an address, and of a word on the stack.
const WORD: u64 = 8;
/// Bytes of memory that are read at once.
const PIECE: usize = 1 << 20;

/// Return address of the call in `asyncPreempt`, and the distance on the stack from it to the resume address, in bytes.
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

/// Addresses of the file at which interrupted goroutines of a program will resume; all threads are stopped.
///
/// # Errors
/// [`PtraceError`] if the mappings of the process cannot be read.
pub(super) fn resume_addresses(
    memory: &impl ReadMemory,
    image: &Image,
    bias: LoadBias,
) -> Result<Vec<FileAddr>, PtraceError> {
    let Some((address, distance)) = saved_context(image) else { return Ok(Vec::new()) };
    let wanted = bias.to_run(address).0.to_le_bytes();
    let mut all = Vec::new();
    for Mapping { start, end, .. } in mappings(memory.pid())?.iter().filter(|one| is_own(one)) {
        let mut bytes = vec![0; PIECE];
        for at in (start.0..end.0).step_by(PIECE) {
            let piece = &mut bytes[..PIECE.min((end.0 - at) as usize)];
            if memory.read(RunAddr(at), piece).is_err() {
                continue;
            }
            let words = (at..).step_by(WORD as usize).zip(piece.as_chunks().0);
            for (place, _) in words.filter(|(_, word)| **word == wanted) {
                let mut resume_at = [0; WORD as usize];
                if memory.read(RunAddr(place).wrapping_add(distance), &mut resume_at).is_ok() {
                    all.push(bias.to_file(RunAddr(u64::from_le_bytes(resume_at))));
                }
            }
        }
    }
    Ok(all)
}

/// Whether a mapping may contain stacks: writable memory without a file.
fn is_own(mapping: &Mapping) -> bool {
    mapping.writable && !mapping.path.is_absolute()
}
