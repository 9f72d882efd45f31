//! A stretch of a function to its instructions and the branches between them.

use std::ops::Range;

use iced_x86::Instruction;

use super::flow::fragment_at;
use super::go::Runtime;
use super::{Refusal, branch_target, bytes_of, instructions};
use crate::elf::Image;

/// Bytes of an instruction, on average.
const MEAN_BYTES: usize = 4;

/// A function, or a part of one that lies apart.
#[derive(Debug)]
pub(super) struct Body {
    /// Where it is.
    pub range: Range<u64>,
    /// Where the function it belongs to is.
    pub function: Range<u64>,
    /// All its instructions.
    pub instructions: Vec<Instruction>,
    /// What Go's runtime makes of it.
    pub go: Runtime,
    /// Branches of its own to each of its addresses, by number.
    branches: Branches,
}

/// Branches by where they lead.
#[derive(Debug)]
struct Branches {
    /// Where each leads, ascending.
    targets: Vec<u64>,
    /// Their numbers, in the same order.
    numbers: Vec<usize>,
}

impl Branches {
    fn new(mut all: Vec<(u64, usize)>) -> Self {
        all.sort_unstable();
        let (targets, numbers) = all.into_iter().unzip();
        Branches { targets, numbers }
    }

    fn to(&self, address: u64) -> &[usize] {
        let first = self.targets.partition_point(|target| *target < address);
        let count = self.targets[first..].partition_point(|target| *target == address);
        &self.numbers[first..first + count]
    }
}

impl Body {
    /// Reads it.
    ///
    /// # Errors
    /// [`Refusal`] if it is not all instructions, or if memory has others.
    pub fn read(image: &Image, range: Range<u64>, function: Range<u64>) -> Result<Body, Refusal> {
        if let Some(refusal) = image.unsettled(&range) {
            return Err(refusal);
        }
        let bytes = bytes_of(image, range.start, range.end - range.start);
        let bytes = bytes.ok_or(Refusal::NoInstructions)?;
        let mut all = Vec::with_capacity(bytes.len() / MEAN_BYTES + 1);
        all.extend(instructions(bytes, range.start));
        let instructions: Vec<Instruction> = all;
        let end = instructions.last().map_or(range.start, Instruction::next_ip);
        if end != range.end {
            return Err(Refusal::Undecodable(end));
        }
        let inside = |(index, instruction)| {
            let target = branch_target(instruction).filter(|one| range.contains(one))?;
            Some((target, index))
        };
        let branches = Branches::new(instructions.iter().enumerate().filter_map(inside).collect());
        let go = Runtime::of(image, &function, &instructions);
        Ok(Body { range, function, instructions, go, branches })
    }

    /// The branches to an address, by number.
    pub fn branches_to(&self, address: u64) -> &[usize] {
        self.branches.to(address)
    }

    /// Where the instruction with a number begins; behind the last one, where that ends.
    pub fn address(&self, index: usize) -> u64 {
        self.instructions.get(index).map_or(self.range.end, Instruction::ip)
    }

    /// The number of the instruction at an address.
    pub fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// Whether an address belongs to the function: to it, or to a part of it that lies apart. Its own first
    /// instruction does not: what goes there begins anew.
    pub fn owns(&self, image: &Image, address: u64) -> bool {
        let inside = |range: &Range<u64>| range.contains(&address);
        let apart = || {
            // Parts are reached by jumps only, from the function they belong to.
            fragment_at(image, address).is_some()
        };
        // Into the middle of another function: shared code, which returns for both.
        let shared = || image.function_at(address).is_some_and(|one| one.start != address);
        let again = address == self.function.start;
        !again && (inside(&self.range) || inside(&self.function) || apart() || shared())
    }

    /// Whether data hold addresses within it, or within the function it is a part of.
    pub fn has_inner_pointers(&self, image: &Image) -> bool {
        let inside = |range: &Range<u64>| {
            let first = image.reached.partition_point(|address| *address <= range.start);
            image.reached.get(first).is_some_and(|address| range.contains(address))
        };
        inside(&self.range) || inside(&self.function)
    }
}
