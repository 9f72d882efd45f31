//! Moved instructions to stubs: say that the function was entered, do what stood at its start, go on behind
//! it.
//!
//! ```text
//! function   jmp stub | ...the rest                 stub   tag
//!                     ^-----------------------------------  moved instructions, jmp
//! ```
//!
//! `gs` is a register that programs on Linux leave alone: each thread's holds the address of its own
//! counters or records. What a stub does beside what it must is in [`tags`]. Stubs hold no calls, so nothing
//! ever returns into one: a moved call pushes the return address it would have pushed, and jumps.

pub mod layout;
mod switch;
pub mod tags;
#[cfg(test)]
mod tests;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, FlowControl, Instruction, InstructionBlock,
    MemoryOperand, Register,
};

use crate::disassembly::Prologue;
pub use tags::{Sink, TagPlace, Tags};

/// What stubs begin at multiples of: what processors fetch at once.
const ALIGNMENT: usize = 16;

/// Why a stub cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("its first instructions cannot be moved to {at:x}: {reason}")]
pub struct StubError {
    /// Where to.
    pub at: u64,
    /// What is wrong.
    pub reason: String,
}

/// A stub in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Where it is.
    pub start: u64,
    /// Address behind it.
    pub end: u64,
    /// Each moved instruction: where it was, and where its counterpart is.
    pub moved: Vec<(u64, u64)>,
}

/// Stubs, one behind the other.
#[derive(Clone, Debug)]
pub struct Stubs {
    start: u64,
    tags: Tags,
    code: Vec<u8>,
}

impl Stubs {
    /// None yet, and at most so many tags. `start`: where they will be, within 2 GiB of all functions.
    ///
    /// # Errors
    /// [`StubError`] if what tags share cannot be made.
    pub fn new(start: u64, sink: Sink, at_most: usize) -> Result<Self, StubError> {
        let tags = Tags::new(sink, start, at_most)?;
        let code = vec![0xcc; tags.prelude_bytes()];
        Ok(Stubs { start, tags, code })
    }

    /// What is to be at their start.
    pub fn code(&self) -> Vec<u8> {
        let prelude = self.tags.prelude();
        let stubs = &self.code[prelude.len()..];
        [&prelude[..], stubs].concat()
    }

    /// Adds the stub of a function whose instructions are as they run (not as they are in the file).
    /// `number`: of its counter.
    ///
    /// # Errors
    /// [`StubError`]; nothing was added.
    pub fn add(&mut self, prologue: &Prologue, number: u32) -> Result<Stub, StubError> {
        let begin = self.code.len().next_multiple_of(ALIGNMENT);
        let start = self.start + begin as u64;
        let mut code = self.tags.code(&TagPlace::entry(number), start)?;
        let body = start + code.len() as u64;
        let Moved { instructions, constant } = moved(prologue);
        let (mut bytes, offsets) = encode(&instructions, body)?;
        if let Some((value, at)) = constant {
            // Read by the push, and never reached.
            bytes.resize(bytes.len().next_multiple_of(8), 0xcc);
            let place = body + bytes.len() as u64;
            bytes.extend(value.to_le_bytes());
            let push = offsets[at] as usize;
            let displacement = place.wrapping_sub(body + push as u64 + PUSH_BYTES as u64) as u32;
            bytes[push + 2..push + PUSH_BYTES].copy_from_slice(&displacement.to_le_bytes());
        }
        code.extend(bytes);
        // One that was rewritten as several has no counterpart.
        let moved = prologue.instructions.iter().zip(&offsets).filter(|(_, new)| **new != u32::MAX);
        let moved = moved.map(|(old, new)| (old.ip(), body + u64::from(*new))).collect();
        let end = start + code.len() as u64;
        self.code.resize(begin, 0xcc);
        self.code.extend(code);
        Ok(Stub { start, end, moved })
    }
}

/// Bytes of `push qword [rip+disp32]`.
const PUSH_BYTES: usize = 6;

/// Instructions to be encoded elsewhere.
struct Moved {
    instructions: Vec<Instruction>,
    /// A return address to be pushed, and the number of the instruction that does.
    constant: Option<(u64, usize)>,
}

fn moved(prologue: &Prologue) -> Moved {
    let mut instructions = prologue.instructions.clone();
    let mut constant = None;
    let last = instructions.pop().unwrap_or_default();
    let next = last.next_ip();
    match last.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => {
            constant = Some((next, instructions.len()));
            let place = MemoryOperand::with_base_displ(Register::RIP, next as i64);
            let push = Instruction::with1(Code::Push_rm64, place).unwrap_or_default();
            let mut jump = last;
            jump.set_code(match last.code() {
                Code::Call_rel32_64 => Code::Jmp_rel32_64,
                _ => Code::Jmp_rm64,
            });
            instructions.extend([push, jump]);
        }
        _ => instructions.push(last),
    }
    if prologue.goes_on && constant.is_none() {
        let back = Instruction::with_branch(Code::Jmp_rel32_64, next).unwrap_or_default();
        instructions.push(back);
    }
    Moved { instructions, constant }
}

/// The code of instructions at an address, and where in it each of them is.
fn encode(instructions: &[Instruction], at: u64) -> Result<(Vec<u8>, Vec<u32>), StubError> {
    let block = InstructionBlock::new(instructions, at);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = BlockEncoder::encode(64, block, options)
        .map_err(|error| StubError { at, reason: error.to_string() })?;
    Ok((result.code_buffer, result.new_instruction_offsets))
}
