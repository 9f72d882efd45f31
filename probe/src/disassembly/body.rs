//! Decodes one contiguous part of a function and indexes the branches within it.

use std::ops::Range;

use iced_x86::Instruction;

use super::code_index::fragment_at;
use super::go::GoConstraints;
use super::{Refusal, branch_target, bytes_of, instructions};
use crate::elf::Image;

/// Average length of an instruction in bytes, for reserving memory.
const MEAN_BYTES: usize = 4;

/// The instructions of a function, or of a separate part of a function.
#[derive(Debug)]
pub(super) struct Body {
    /// Address range of the body.
    pub range: Range<u64>,
    /// Address range of the function that the body belongs to.
    pub function: Range<u64>,
    /// All instructions of the body, by address.
    pub instructions: Vec<Instruction>,
    /// Constraints of Go's runtime. The default stands for a function that is not Go code.
    pub go: GoConstraints,
    /// Direct branches within the body, by target.
    branches: Branches,
}

/// Direct branches, sorted by target.
#[derive(Debug)]
struct Branches {
    /// Target of each branch, ascending.
    targets: Vec<u64>,
    /// Index of each branch instruction, in the order of `targets`.
    numbers: Vec<usize>,
}

impl Branches {
    fn new(mut branches: Vec<(u64, usize)>) -> Self {
        branches.sort_unstable();
        let (targets, numbers) = branches.into_iter().unzip();
        Branches { targets, numbers }
    }

    fn to(&self, address: u64) -> &[usize] {
        let first = self.targets.partition_point(|target| *target < address);
        let count = self.targets[first..].partition_point(|target| *target == address);
        &self.numbers[first..first + count]
    }
}

impl Body {
    /// Decodes the body at an address range.
    ///
    /// # Errors
    /// [`Refusal`] if some bytes are no instructions, or the range differs in memory.
    pub fn read(image: &Image, range: Range<u64>, function: Range<u64>) -> Result<Body, Refusal> {
        if let Some(refusal) = image.memory_difference(&range) {
            return Err(refusal);
        }
        let bytes = bytes_of(image, range.start, range.end - range.start);
        let bytes = bytes.ok_or(Refusal::NoInstructions)?;
        let mut decoded = Vec::with_capacity(bytes.len() / MEAN_BYTES + 1);
        decoded.extend(instructions(bytes, range.start));
        let instructions: Vec<Instruction> = decoded;
        let end = instructions.last().map_or(range.start, Instruction::next_ip);
        if end != range.end {
            return Err(Refusal::Undecodable(end));
        }
        let inside = |(index, instruction)| {
            let target = branch_target(instruction).filter(|target| range.contains(target))?;
            Some((target, index))
        };
        let branches = Branches::new(instructions.iter().enumerate().filter_map(inside).collect());
        let go = GoConstraints::new(image, &function, &instructions);
        Ok(Body { range, function, instructions, go, branches })
    }

    /// Indexes of the branches within the body that lead to an address, ascending.
    pub fn branches_to(&self, address: u64) -> &[usize] {
        self.branches.to(address)
    }

    /// Address of an instruction by its index. The index behind the last instruction gives the end
    /// of the body.
    pub fn address(&self, index: usize) -> u64 {
        self.instructions.get(index).map_or(self.range.end, Instruction::ip)
    }

    /// Index of the instruction at an address; `None` if no instruction begins there.
    pub fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// Whether an address belongs to the function or to a separate part of it. The function's first
    /// instruction does not count: a branch to it restarts the function.
    pub fn owns(&self, image: &Image, address: u64) -> bool {
        let inside = |range: &Range<u64>| range.contains(&address);
        let apart = || {
            // Separate parts are reached only by jumps from the function that they belong to.
            fragment_at(image, address).is_some()
        };
        // A target in the middle of another function is code that both functions share. A return in
        // this code leaves both functions.
        let shared =
            || image.function_at(address).is_some_and(|function| function.start != address);
        let is_restart = address == self.function.start;
        !is_restart && (inside(&self.range) || inside(&self.function) || apart() || shared())
    }

    /// Whether data contain addresses within the body or within its function.
    pub fn has_inner_pointers(&self, image: &Image) -> bool {
        let inside = |range: &Range<u64>| {
            let first = image.indirect_targets.partition_point(|address| *address <= range.start);
            image.indirect_targets.get(first).is_some_and(|address| range.contains(address))
        };
        inside(&self.range) || inside(&self.function)
    }
}
