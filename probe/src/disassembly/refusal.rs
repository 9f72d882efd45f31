//! Names the reasons why a place in a program cannot be tagged.

use std::fmt;
use std::ops::Range;

use super::JUMP_BYTES;
use crate::elf::Image;

/// Reason why a function, a block or an exit site cannot be tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The function's instructions are not in the file.
    NoInstructions,
    /// The bytes at this address are not an instruction.
    Undecodable(u64),
    /// There is no space for a jump, and no space nearby can be freed.
    TooShort,
    /// Control may arrive from an unknown place at this address, which a jump would overwrite.
    Target(u64),
    /// The jump at this address leads to unknown places within the function.
    Computed(u64),
    /// The instruction at this address computes addresses within the function. Control may arrive
    /// at any of them.
    EnteredWithin(u64),
    /// The block is in a loop that can be entered at several blocks. So it is not the head of a
    /// natural loop.
    Irregular,
    /// The instruction at this address cannot be moved.
    Unmovable(u64),
    /// The byte at this address differs between the file and the memory of the process.
    Differs(u64),
    /// The dynamic linker changes the instructions at this address when it loads the file.
    Relocated(u64),
    /// Go's runtime enters the function in its middle, compares its address or unwinds it
    /// specially.
    GoRuntime,
    /// The Go runtime's function table has an unknown version.
    GoVersion,
    /// The function runs without a stack check, so there may be too little stack for a tag that
    /// writes below the stack pointer.
    GoStack,
    /// The block is in a Go function. The runtime must be able to interrupt its blocks at their
    /// original addresses.
    GoBlock,
    /// A restartable sequence is at this address. Its abort depends on the address of its code.
    Sequence(u64),
    /// The file has unknown restartable sequences: a signature is at this address, and no
    /// descriptor leads to it.
    UnknownSequence(u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoInstructions => write!(f, "its instructions are not in the file"),
            Refusal::Undecodable(address) => write!(f, "no instruction at {address:x}"),
            Refusal::TooShort => write!(f, "no space for a jump"),
            Refusal::Target(address) => {
                write!(f, "control may arrive at {address:x}, where the jump would be")
            }
            Refusal::Computed(address) => {
                write!(f, "the jump at {address:x} is computed, and its targets are not known")
            }
            Refusal::EnteredWithin(address) => {
                write!(
                    f,
                    "control may arrive within it: the instruction at {address:x} computes an address from its address"
                )
            }
            Refusal::Irregular => {
                write!(f, "its loop has several entries: it is not a natural loop")
            }
            Refusal::Unmovable(address) => {
                write!(f, "the instruction at {address:x} cannot be moved")
            }
            Refusal::Differs(address) => {
                write!(f, "it differs from its file in memory at {address:x}")
            }
            Refusal::Relocated(address) => {
                write!(
                    f,
                    "the dynamic linker changes its instructions at {address:x} (text relocation)"
                )
            }
            Refusal::GoRuntime => write!(f, "Go's runtime depends on its addresses"),
            Refusal::GoVersion => {
                write!(
                    f,
                    "the program's table of functions has an unknown Go version (before 1.18, or newer)"
                )
            }
            Refusal::GoStack => {
                write!(
                    f,
                    "Go does not check its stack: there may be too little space for what a tag saves"
                )
            }
            Refusal::Sequence(address) => {
                write!(f, "a restartable sequence (rseq) at {address:x} must stay where it is")
            }
            Refusal::UnknownSequence(address) => {
                write!(
                    f,
                    "its file has a restartable sequence (rseq) with its signature at {address:x} and no descriptor: \
                     it is not known which code must stay where it is"
                )
            }
            Refusal::GoBlock => write!(f, "blocks of functions of Go are not tagged"),
        }
    }
}

impl Image {
    /// Reason why a range of instructions differs in memory from the file; `None` if it does not
    /// differ.
    pub(crate) fn memory_difference(&self, range: &Range<u64>) -> Option<Refusal> {
        let first = |places: &[Range<u64>]| {
            let place = places.get(places.partition_point(|place| place.end <= range.start))?;
            (place.start < range.end).then_some(place.start.max(range.start))
        };
        let relocated = first(&self.relocated).map(Refusal::Relocated);
        relocated.or_else(|| first(&self.differing).map(Refusal::Differs))
    }

    /// Reason why instructions of a range must stay in place for a restartable sequence; `None` if
    /// there is no reason.
    pub(crate) fn sequence_within(&self, range: &Range<u64>) -> Option<Refusal> {
        // The instruction directly before a section stores the address of the section's descriptor.
        // No other instruction may be executed in between.
        let range = range.start..range.end.saturating_add(1);
        let known = self.sequences.first_within(&range).map(Refusal::Sequence);
        known.or(self.sequences.undescribed.map(Refusal::UnknownSequence))
    }

    /// Whether a call and its function are the same in memory as in the file. `next`: address
    /// behind the call.
    pub(crate) fn is_unchanged_call(&self, next: u64) -> bool {
        if self.relocated.is_empty() && self.differing.is_empty() {
            return true;
        }
        let call = next.saturating_sub(JUMP_BYTES as u64)..next;
        let function = self.function_at(call.start);
        let function = function
            .map_or(call.clone(), |function| function.start..function.start + function.size);
        self.memory_difference(&call).or_else(|| self.memory_difference(&function)).is_none()
    }
}
