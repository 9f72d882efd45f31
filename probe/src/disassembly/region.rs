//! Finds regions: runs of instructions that a jump can replace.
//!
//! A region is moved as a whole, so control may arrive at its first byte, and at other instructions
//! only from within the region. A region is closed: if a branch leads into its middle, the branch
//! is in the region. A call can only be its last instruction, because it returns to its original
//! address.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, Register};

use super::body::Body;
use super::code_index::CodeIndex;
use super::{Refusal, bytes_of, falls_through, is_call};
use crate::elf::Image;

/// Largest region, in bytes.
const LONGEST: u64 = 512;
/// Most padding bytes after a function that are used.
const PADDING: u64 = 32;

/// A run of instructions, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub first: usize,
    /// Number of the instruction after the last one.
    pub end: usize,
    /// Address after the bytes that may be overwritten: the instructions, and padding after them.
    pub limit: u64,
}

/// Finds regions in a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionFinder<'a> {
    pub image: &'a Image,
    pub code_index: &'a CodeIndex,
    pub body: &'a Body,
}

impl RegionFinder<'_> {
    /// Finds the smallest region that contains some instructions. If there is none, there is none
    /// for more of them either.
    ///
    /// # Errors
    /// [`Refusal`] if there is no such region.
    pub fn close(&self, mut first: usize, mut end: usize) -> Result<Span, Refusal> {
        let body = self.body;
        // Instructions already checked: a region may often grow by one instruction.
        let (mut seen_first, mut seen_end) = (first, first);
        loop {
            let (start, after) = (body.address(first), body.address(end));
            if after - start > LONGEST {
                return Err(Refusal::Target(start));
            }
            let (from, to) = (first, end);
            // The former first and last instructions may have become inner ones: they are checked
            // again.
            let before = from..if from < seen_first { seen_first + 1 } else { from };
            let more =
                if to > seen_end { seen_end.saturating_sub(1).max(before.end) } else { to }..to;
            for index in before.chain(more) {
                self.check(index, to)?;
                let address = body.address(index);
                if index == from {
                    continue;
                }
                if self.code_index.is_external_target(address) {
                    return Err(Refusal::Target(address));
                }
                // Branch numbers are in ascending order.
                if let [nearest, .., farthest] | [nearest @ farthest] = body.branches_to(address) {
                    (first, end) = (first.min(*nearest), end.max(farthest + 1));
                }
            }
            if (first, end) == (from, to) {
                return Ok(Span { first, end, limit: self.limit(end) });
            }
            (seen_first, seen_end) = (from, to);
        }
    }

    /// Whether an instruction is not reached from the one before it.
    pub fn is_dead(&self, index: usize) -> bool {
        let before = self.body.instructions[..index].iter().rev();
        let mut before = before.skip_while(|instruction| self.is_padding(instruction));
        before.next().is_some_and(|last| !falls_through(last))
    }

    /// Whether an instruction is padding that is reached only from the one before it.
    pub fn is_padding(&self, instruction: &Instruction) -> bool {
        let ip = instruction.ip();
        let bytes = bytes_of(self.image, ip, instruction.len() as u64).unwrap_or_default();
        is_padding(instruction, bytes)
            && !self.is_target(ip)
            && self.target_within(instruction).is_none()
    }

    /// Whether control arrives at an address other than from the previous instruction.
    fn is_target(&self, address: u64) -> bool {
        self.code_index.is_external_target(address) || !self.body.branches_to(address).is_empty()
    }

    /// The address within an instruction where control arrives, and which is another instruction
    /// there. A branch may skip a prefix, such as a lock that a single thread does not need.
    pub fn target_within(&self, instruction: &Instruction) -> Option<u64> {
        (instruction.ip() + 1..instruction.next_ip()).find(|at| self.is_target(*at))
    }

    /// Checks whether an instruction of a region can be moved.
    fn check(&self, index: usize, end: usize) -> Result<(), Refusal> {
        let instruction = &self.body.instructions[index];
        self.body.go.check(self.body, index)?;
        let refused = match instruction.flow_control() {
            FlowControl::XbeginXabortXend | FlowControl::Exception => true,
            _ if is_call(instruction) => {
                let plain = matches!(instruction.code(), Code::Call_rel32_64 | Code::Call_rm64);
                // The target would be computed after the return address is pushed.
                let stack = instruction.memory_base() == Register::RSP;
                !plain || stack || index + 1 != end
            }
            _ => false,
        };
        match self.target_within(instruction) {
            Some(address) => Err(Refusal::Target(address)),
            None if refused => Err(Refusal::Unmovable(instruction.ip())),
            None => Ok(()),
        }
    }

    /// Address after the bytes that may be overwritten if a region ends before instruction `end`.
    fn limit(&self, end: usize) -> u64 {
        let body = self.body;
        if body.instructions.get(end - 1).is_none_or(falls_through) {
            return body.address(end);
        }
        let after = body.instructions[end..].iter();
        let after = after.take_while(|instruction| self.is_padding(instruction));
        let index = end + after.count();
        let limit = body.address(index);
        if index < body.instructions.len() { limit } else { self.padding(limit) }
    }

    /// End of the padding that begins at the end of the body.
    fn padding(&self, from: u64) -> u64 {
        let image = self.image;
        let next = image.functions.partition_point(|one| one.start < from);
        let next = image.functions.get(next).map_or(u64::MAX, |one| one.start);
        let part = image.fragments.partition_point(|one| one.start < from);
        let part = image.fragments.get(part).map_or(u64::MAX, |one| one.start);
        let mut end = from;
        let last = next.min(part).min(from + PADDING);
        while end < last {
            let longest = (last - end).min(15);
            let Some(bytes) = bytes_of(image, end, longest) else { break };
            let Some(instruction) = super::instructions(bytes, end).next() else { break };
            let after = instruction.next_ip();
            let padding = is_padding(&instruction, &bytes[..instruction.len()])
                && image.memory_difference(&(end..after)).is_none();
            if !padding
                || after > last
                || (end..after).any(|at| self.code_index.is_external_target(at))
            {
                break;
            }
            end = after;
        }
        end
    }
}

/// Whether an instruction only fills space. Between sections, zeros do.
fn is_padding(instruction: &Instruction, bytes: &[u8]) -> bool {
    instruction.mnemonic() == Mnemonic::Nop
        || bytes.iter().all(|byte| *byte == 0)
        || instruction.code() == Code::Int3
        || instruction.code() == Code::Xchg_r16_AX && instruction.op0_register() == Register::AX
}
