//! Functions to the instructions at their entries that a jump can take the place of.
//!
//! A jump takes [`JUMP_BYTES`]. Whole instructions make room for it: they are moved to a stub. Invariant:
//! nothing branches to what is overwritten but to its first byte, and no return address lies in it.

mod prologue;

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::elf::{Function, Image, Text};

pub use prologue::{Prologue, Refusal};

/// Bytes of a jump to anywhere within 2 GiB.
pub const JUMP_BYTES: usize = 5;
/// Bytes of the longest instruction (Intel SDM, volume 2, 2.3.11).
const LONGEST_INSTRUCTION: u64 = 15;
/// What a jump at the entry of a function may overwrite, at most.
const HEAD_BYTES: u64 = JUMP_BYTES as u64 - 1 + LONGEST_INSTRUCTION;

/// Where branches lead among the first bytes of functions.
#[derive(Debug, Default)]
pub struct Heads {
    /// Branch targets behind an entry, but not far.
    targets: HashSet<u64>,
    /// Entries that their own function branches to.
    loops: HashSet<u64>,
}

impl Heads {
    /// Reads all instructions of all functions.
    pub fn of(image: &Image) -> Heads {
        let mut heads = Heads::default();
        let functions = image.functions.iter().map(|function| (function.start, function.size));
        let fragments = image.fragments.iter().map(|range| (range.start, range.end - range.start));
        for (start, size) in functions.chain(fragments) {
            let Some(bytes) = bytes_of(image, start, size) else { continue };
            for target in instructions(bytes, start).filter_map(|one| branch_target(&one)) {
                heads.note(image, start, target);
            }
        }
        heads
    }

    fn note(&mut self, image: &Image, from: u64, target: u64) {
        if target == from {
            self.loops.insert(target);
        } else if image.function_at(target).is_none_or(|to| target - to.start < HEAD_BYTES) {
            self.targets.insert(target);
        }
    }

    /// Moves the first instructions of a function out of the way of a jump.
    ///
    /// # Errors
    /// [`Refusal`]: why a jump there would not be safe.
    pub fn prologue(&self, image: &Image, function: &Function) -> Result<Prologue, Refusal> {
        prologue::of(self, image, function)
    }
}

/// The instructions in some bytes, up to the first that is none.
fn instructions(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid())
}

/// Where a branch leads that is no call and that says so.
fn branch_target(instruction: &Instruction) -> Option<u64> {
    let branches = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    branches.then(|| instruction.near_branch_target()).filter(|target| *target != 0)
}

/// Some bytes of the text, if it has them all.
fn bytes_of(image: &Image, start: u64, size: u64) -> Option<&[u8]> {
    let text = text_of(image, start)?;
    let at = usize::try_from(start - text.start).ok()?;
    text.bytes.get(at..at.checked_add(usize::try_from(size).ok()?)?)
}

/// The segment an address is in.
fn text_of(image: &Image, address: u64) -> Option<&Text> {
    let holds = |text: &&Text| {
        address.checked_sub(text.start).is_some_and(|at| at < text.bytes.len() as u64)
    };
    image.text.iter().find(holds)
}
