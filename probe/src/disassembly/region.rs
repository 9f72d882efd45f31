//! Instructions around a place to a region that a jump can take the place of.
//!
//! A region is moved as a whole, so control may arrive at its first byte only, or at others from within.
//! It is closed: if a branch leads into its middle, the branch is in it. A call can only be its last
//! instruction, because it returns to where it was.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, Register};

use super::body::Body;
use super::flow::Flow;
use super::{Refusal, bytes_of, goes_on, is_call};
use crate::elf::Image;

/// Longest region, in bytes.
const LONGEST: u64 = 512;
/// Most padding behind a function that is used, in bytes.
const PADDING: u64 = 32;

/// Instructions by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub first: usize,
    /// Behind the last one.
    pub end: usize,
    /// Address behind what may be overwritten: theirs, and padding behind them.
    pub room: u64,
}

/// What regions are made in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub image: &'a Image,
    pub flow: &'a Flow,
    pub body: &'a Body,
}

impl Ground<'_> {
    /// The smallest region with some instructions. If there is none, there is none with more either.
    ///
    /// # Errors
    /// [`Refusal`] if there is none.
    pub fn close(&self, mut first: usize, mut end: usize) -> Result<Span, Refusal> {
        let body = self.body;
        // Those that were looked at: a region may grow by one instruction often.
        let (mut seen_first, mut seen_end) = (first, first);
        loop {
            let (start, behind) = (body.address(first), body.address(end));
            if behind - start > LONGEST {
                return Err(Refusal::Target(start));
            }
            let (from, to) = (first, end);
            // What was the first instruction, or the last one, may be neither any more.
            let before = from..if from < seen_first { seen_first + 1 } else { from };
            let more =
                if to > seen_end { seen_end.saturating_sub(1).max(before.end) } else { to }..to;
            for index in before.chain(more) {
                self.check(index, to)?;
                let address = body.address(index);
                if index == from {
                    continue;
                }
                if self.flow.is_fixed(address) {
                    return Err(Refusal::Target(address));
                }
                // They are in ascending order.
                if let [nearest, .., farthest] | [nearest @ farthest] = body.branches_to(address) {
                    (first, end) = (first.min(*nearest), end.max(farthest + 1));
                }
            }
            if (first, end) == (from, to) {
                return Ok(Span { first, end, room: self.room(end) });
            }
            (seen_first, seen_end) = (from, to);
        }
    }

    /// Whether nothing gets to an instruction from the one before it.
    pub fn is_dead(&self, index: usize) -> bool {
        let before = self.body.instructions[..index].iter().rev();
        let mut before = before.skip_while(|instruction| self.is_padding(instruction));
        before.next().is_some_and(|last| !goes_on(last))
    }

    /// Whether an instruction fills space and nothing but the one before it leads there.
    pub fn is_padding(&self, instruction: &Instruction) -> bool {
        let ip = instruction.ip();
        let bytes = bytes_of(self.image, ip, instruction.len() as u64).unwrap_or_default();
        is_padding(instruction, bytes)
            && !self.is_led_to(ip)
            && self.arrival_within(instruction).is_none()
    }

    /// Whether control arrives at an address otherwise than from the instruction before.
    fn is_led_to(&self, address: u64) -> bool {
        self.flow.is_fixed(address) || !self.body.branches_to(address).is_empty()
    }

    /// Where control arrives in the middle of an instruction, which is another one there: a prefix may be jumped over,
    /// such as the lock that a single thread does not need.
    pub fn arrival_within(&self, instruction: &Instruction) -> Option<u64> {
        (instruction.ip() + 1..instruction.next_ip()).find(|at| self.is_led_to(*at))
    }

    /// Whether an instruction of a region can be moved.
    fn check(&self, index: usize, end: usize) -> Result<(), Refusal> {
        let instruction = &self.body.instructions[index];
        self.body.go.check(self.body, index)?;
        let refused = match instruction.flow_control() {
            FlowControl::XbeginXabortXend | FlowControl::Exception => true,
            _ if is_call(instruction) => {
                let plain = matches!(instruction.code(), Code::Call_rel32_64 | Code::Call_rm64);
                // It would be computed after something was pushed.
                let stack = instruction.memory_base() == Register::RSP;
                !plain || stack || index + 1 != end
            }
            _ => false,
        };
        match self.arrival_within(instruction) {
            Some(address) => Err(Refusal::Target(address)),
            None if refused => Err(Refusal::Unmovable(instruction.ip())),
            None => Ok(()),
        }
    }

    /// Where what may be overwritten ends if a region ends before an instruction.
    fn room(&self, end: usize) -> u64 {
        let body = self.body;
        if body.instructions.get(end - 1).is_none_or(goes_on) {
            return body.address(end);
        }
        let behind = body.instructions[end..].iter();
        let behind = behind.take_while(|instruction| self.is_padding(instruction));
        let index = end + behind.count();
        let room = body.address(index);
        if index < body.instructions.len() { room } else { self.padding(room) }
    }

    /// Where padding ends that begins where the body ends.
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
            let behind = instruction.next_ip();
            let padding = is_padding(&instruction, &bytes[..instruction.len()])
                && image.unsettled(&(end..behind)).is_none();
            if !padding || behind > last || (end..behind).any(|at| self.flow.is_fixed(at)) {
                break;
            }
            end = behind;
        }
        end
    }
}

/// Whether an instruction is there to fill space; between sections that is zeros.
fn is_padding(instruction: &Instruction, bytes: &[u8]) -> bool {
    instruction.mnemonic() == Mnemonic::Nop
        || bytes.iter().all(|byte| *byte == 0)
        || instruction.code() == Code::Int3
        || instruction.code() == Code::Xchg_r16_AX && instruction.op0_register() == Register::AX
}
