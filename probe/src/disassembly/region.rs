//! Finds regions: runs of instructions that a jump can replace.
//!
//! A region is moved as a whole. So control may arrive at its first byte; at its other instructions
//! it may arrive only from within the region. A region is closed: if a branch leads into its
//! middle, the branch is in the region. A call can only be its last instruction, because the call
//! returns to its original address.
//!
//! ```text
//!         mov eax, [rdi]     2 bytes: too few for a jump of 5 bytes
//! again:  add eax, 1         3 bytes: a region with both must contain the branch to `again`
//!         cmp eax, esi
//!         jne again          the smallest region ends here
//! ```

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, Register};

use super::body::Body;
use super::code_index::CodeIndex;
use super::{Refusal, bytes_of, falls_through, is_call};
use crate::elf::Image;

/// Maximum size of a region, in bytes.
const LONGEST: u64 = 512;
/// Maximum number of padding bytes behind a function that are used.
const PADDING: u64 = 32;

/// A run of instructions, by their indexes in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub first: usize,
    /// Index of the instruction behind the last one.
    pub end: usize,
    /// Address behind the bytes that may be overwritten: the instructions, and padding behind them.
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
    /// Finds the smallest region that contains the instructions from `first` to before `end`. If
    /// there is none, there is no region for a longer run either.
    ///
    /// # Errors
    /// [`Refusal`] if there is no such region.
    pub fn close(&self, mut first: usize, mut end: usize) -> Result<Span, Refusal> {
        let body = self.body;
        // Instructions that were already checked are skipped, because a region may often grow by
        // one instruction.
        let (mut seen_first, mut seen_end) = (first, first);
        loop {
            let (start, after) = (body.address(first), body.address(end));
            if after - start > LONGEST {
                return Err(Refusal::Target(start));
            }
            let (from, to) = (first, end);
            // The former first and last instructions are checked again, because they may be inner
            // ones now.
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
                // Branch indexes are in ascending order.
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

    /// Whether control cannot arrive at an instruction from the instruction before it. Padding
    /// before it is ignored.
    pub fn is_dead(&self, index: usize) -> bool {
        let before = self.body.instructions[..index].iter().rev();
        let mut before = before.skip_while(|instruction| self.is_padding(instruction));
        before.next().is_some_and(|last| !falls_through(last))
    }

    /// Whether an instruction is padding at which control arrives, if at all, only from the
    /// instruction before it.
    pub fn is_padding(&self, instruction: &Instruction) -> bool {
        let ip = instruction.ip();
        let bytes = bytes_of(self.image, ip, instruction.len() as u64).unwrap_or_default();
        is_padding(instruction, bytes)
            && !self.is_target(ip)
            && self.target_within(instruction).is_none()
    }

    /// Whether control arrives at an address in another way than from the previous instruction.
    fn is_target(&self, address: u64) -> bool {
        self.code_index.is_external_target(address) || !self.body.branches_to(address).is_empty()
    }

    /// Address in the middle of an instruction at which control arrives, where the remaining bytes
    /// are another instruction. For example, a branch skips a `lock` prefix that a single thread
    /// does not need.
    pub fn target_within(&self, instruction: &Instruction) -> Option<u64> {
        (instruction.ip() + 1..instruction.next_ip()).find(|at| self.is_target(*at))
    }

    /// Checks whether an instruction can be moved with a region. `end`: index behind the region.
    fn check(&self, index: usize, end: usize) -> Result<(), Refusal> {
        let instruction = &self.body.instructions[index];
        self.body.go.check(self.body, index)?;
        let refused = match instruction.flow_control() {
            FlowControl::XbeginXabortXend | FlowControl::Exception => true,
            _ if is_call(instruction) => {
                let plain = matches!(instruction.code(), Code::Call_rel32_64 | Code::Call_rm64);
                // Such a target would be computed after the return address was pushed, from a
                // changed stack pointer.
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

    /// Address behind the bytes that may be overwritten if a region ends before instruction `end`.
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
        let next = image.functions.partition_point(|function| function.start < from);
        let next = image.functions.get(next).map_or(u64::MAX, |function| function.start);
        let part = image.fragments.partition_point(|part| part.start < from);
        let part = image.fragments.get(part).map_or(u64::MAX, |part| part.start);
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

/// Whether an instruction only fills space. Zeros count too, because they fill space between
/// sections.
fn is_padding(instruction: &Instruction, bytes: &[u8]) -> bool {
    instruction.mnemonic() == Mnemonic::Nop
        || bytes.iter().all(|byte| *byte == 0)
        || instruction.code() == Code::Int3
        || instruction.code() == Code::Xchg_r16_AX && instruction.op0_register() == Register::AX
}
