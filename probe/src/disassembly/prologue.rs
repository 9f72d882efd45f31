//! The first instructions of a function: which a jump overwrites, and whether they can be moved.

use std::fmt;

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, Register};

use super::{HEAD_BYTES, Heads, JUMP_BYTES, bytes_of, instructions, text_of};
use crate::elf::{Function, Image};

/// Instructions at the start of a function that are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prologue {
    /// They, at least one.
    pub instructions: Vec<Instruction>,
    /// Bytes that the jump overwrites in part: theirs, and of padding behind the function's end.
    pub bytes: Vec<u8>,
    /// Whether something follows them.
    pub goes_on: bool,
}

/// Why there can be no jump at the entry of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its instructions are not in the file.
    NoInstructions,
    /// What is there at this address is no instruction.
    Undecodable(u64),
    /// It is shorter than a jump, and something else follows.
    TooShort,
    /// Something branches to this address, which would be overwritten.
    Target(u64),
    /// It is a loop that begins with its first instruction: not every arrival is a call.
    Loop,
    /// A call in its first bytes returns to where the jump would be.
    Call,
    /// An instruction there cannot be moved.
    Unmovable(u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoInstructions => write!(f, "its instructions are not in the file"),
            Refusal::Undecodable(address) => write!(f, "no instruction at {address:x}"),
            Refusal::TooShort => write!(f, "shorter than a jump"),
            Refusal::Target(address) => {
                write!(f, "a branch leads to {address:x}, in its first bytes")
            }
            Refusal::Loop => write!(f, "its first instruction is the head of a loop"),
            Refusal::Call => write!(f, "a call in its first bytes returns into them"),
            Refusal::Unmovable(address) => {
                write!(f, "the instruction at {address:x} cannot be moved")
            }
        }
    }
}

impl Prologue {
    /// As it is where the file is loaded. `bias`: added to all addresses.
    pub fn loaded(&self, bias: u64) -> Prologue {
        let start = self.instructions.first().map_or(0, Instruction::ip).wrapping_add(bias);
        let loaded = instructions(&self.bytes, start).take(self.instructions.len());
        Prologue { instructions: loaded.collect(), ..self.clone() }
    }
}

pub(super) fn of(heads: &Heads, image: &Image, function: &Function) -> Result<Prologue, Refusal> {
    let start = function.start;
    let text = text_of(image, start).ok_or(Refusal::NoInstructions)?;
    let left = text.bytes.len() as u64 - (start - text.start);
    let bytes = bytes_of(image, start, left.min(HEAD_BYTES)).ok_or(Refusal::NoInstructions)?;
    if heads.loops.contains(&start) {
        return Err(Refusal::Loop);
    }
    let mut prologue = Prologue { instructions: Vec::new(), bytes: Vec::new(), goes_on: true };
    let mut length = 0;
    let end = start + function.size;
    for instruction in instructions(bytes, start) {
        if length >= JUMP_BYTES {
            break;
        }
        let ip = instruction.ip();
        if ip != start && heads.targets.contains(&ip) {
            return Err(Refusal::Target(ip));
        }
        if !prologue.goes_on || ip >= end {
            // Behind the end of a short function.
            let at = (ip - start) as usize;
            let of_file = &bytes[at..at + instruction.len()];
            let is_free = image.function_at(ip).is_none() && is_padding(&instruction, of_file);
            if !is_free || prologue.goes_on {
                return Err(Refusal::TooShort);
            }
        } else {
            let next = length + instruction.len();
            check(&instruction, next)?;
            prologue.goes_on = goes_on(&instruction);
            prologue.instructions.push(instruction);
        }
        length += instruction.len();
    }
    if length < JUMP_BYTES {
        return Err(Refusal::Undecodable(start + length as u64));
    }
    prologue.bytes = bytes[..length].to_vec();
    Ok(prologue)
}

/// Whether an instruction whose last byte is the `end`th can be moved.
fn check(instruction: &Instruction, end: usize) -> Result<(), Refusal> {
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => {
            // The callee returns behind it, which must be as it was.
            let stack = instruction.memory_base() == Register::RSP;
            let plain = matches!(instruction.code(), Code::Call_rel32_64 | Code::Call_rm64);
            match (end < JUMP_BYTES, stack || !plain) {
                (true, _) => Err(Refusal::Call),
                (_, true) => Err(Refusal::Unmovable(instruction.ip())),
                _ => Ok(()),
            }
        }
        FlowControl::XbeginXabortXend | FlowControl::Exception => {
            Err(Refusal::Unmovable(instruction.ip()))
        }
        _ => Ok(()),
    }
}

/// Whether the next instruction may follow it.
fn goes_on(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
    )
}

/// Whether an instruction is there to fill space; between sections that is zeros.
fn is_padding(instruction: &Instruction, bytes: &[u8]) -> bool {
    instruction.mnemonic() == Mnemonic::Nop
        || bytes.iter().all(|byte| *byte == 0)
        || matches!(instruction.code(), Code::Int3 | Code::Xchg_r16_AX)
}
