//! Why something is left as it is.

use std::fmt;
use std::ops::Range;

use super::JUMP_BYTES;
use crate::elf::Image;

/// Why there can be no tag at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its instructions are not in the file.
    NoInstructions,
    /// What is there at this address is no instruction.
    Undecodable(u64),
    /// There is no room for a jump, and nothing near to make room of.
    TooShort,
    /// Control may arrive at this address, which would be overwritten, from who knows where.
    Target(u64),
    /// The jump at this address leads into the function, it is not known where.
    Computed(u64),
    /// A block that a walk comes back to, in a loop that can be entered elsewhere.
    Irregular,
    /// An instruction there cannot be moved.
    Unmovable(u64),
    /// The byte at this address is not the file's in the memory of the process.
    Differs(u64),
    /// The dynamic linker changes the instructions at this address when it loads the file.
    Relocated(u64),
    /// Go's runtime enters the function in its middle, compares its address or unwinds it specially.
    GoRuntime,
    /// The table of functions that Go's runtime has is of a version that is not known.
    GoVersion,
    /// The function runs without a check of the stack, where Go may have left too little for a tag that writes.
    GoStack,
    /// It is a block of a function of Go, which the runtime could not interrupt elsewhere.
    GoBlock,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoInstructions => write!(f, "its instructions are not in the file"),
            Refusal::Undecodable(address) => write!(f, "no instruction at {address:x}"),
            Refusal::TooShort => write!(f, "no room for a jump"),
            Refusal::Target(address) => {
                write!(f, "control may arrive at {address:x}, where a jump would be")
            }
            Refusal::Computed(address) => {
                write!(f, "the jump at {address:x} is computed, it is not known where it leads")
            }
            Refusal::Irregular => {
                write!(f, "its loop can be entered elsewhere: no natural loop")
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
            Refusal::GoRuntime => write!(f, "Go's runtime looks at its addresses"),
            Refusal::GoVersion => {
                write!(
                    f,
                    "its functions are listed in a way of Go that is not known (older than 1.18, or new)"
                )
            }
            Refusal::GoStack => {
                write!(
                    f,
                    "Go does not check its stack: there may be no room for what a tag saves there"
                )
            }
            Refusal::GoBlock => write!(f, "blocks of functions of Go are not tagged"),
        }
    }
}

impl Image {
    /// Why the bytes in some range of the instructions are not those in memory; `None` if they are.
    pub(crate) fn unsettled(&self, range: &Range<u64>) -> Option<Refusal> {
        let first = |places: &[Range<u64>]| {
            let place = places.get(places.partition_point(|place| place.end <= range.start))?;
            (place.start < range.end).then_some(place.start.max(range.start))
        };
        let relocated = first(&self.relocated).map(Refusal::Relocated);
        relocated.or_else(|| first(&self.differing).map(Refusal::Differs))
    }

    /// Whether the call that ends before an address, and the function it is in, are in memory as they are in the file.
    pub(crate) fn is_settled_call(&self, next: u64) -> bool {
        if self.relocated.is_empty() && self.differing.is_empty() {
            return true;
        }
        let call = next.saturating_sub(JUMP_BYTES as u64)..next;
        let function = self.function_at(call.start);
        let function = function.map_or(call.clone(), |one| one.start..one.start + one.size);
        self.unsettled(&call).or_else(|| self.unsettled(&function)).is_none()
    }
}
