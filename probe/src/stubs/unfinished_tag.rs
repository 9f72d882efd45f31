//! Completes a tag of a log that was interrupted between finding its place and writing its record.
//!
//! The tags of a signal handler would use the same place or the next one, and the handler may never
//! return. Therefore the tracer executes the remaining instructions of the tag before it lets the
//! handler run. These instructions are few, and use only the registers of [`super::tags`].

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::layout::LogShape;
use crate::address::RunAddr;

/// Maximum length in bytes of the remaining code: from the read of the place to the restoring of
/// registers.
pub const UNFINISHED_BYTES: usize = 88;
/// The zero flag.
const ZERO: u64 = 1 << 6;

/// Registers of a thread that a tag uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagRegisters {
    /// Address of the next instruction.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Accumulator.
    pub rax: u64,
    /// Data register.
    pub rdx: u64,
    /// Address of the record's place, after the tag has read it.
    pub r11: u64,
    /// Flags.
    pub rflags: u64,
    /// Address of the thread's slot.
    pub gs: u64,
}

/// Access to the memory of a thread.
pub trait ThreadMemory {
    /// Reads 8 bytes; `None` if they are not mapped.
    fn read(&self, address: RunAddr) -> Option<u64>;
    /// Writes bytes; `None` if they cannot be written.
    fn write(&mut self, address: RunAddr, bytes: &[u8]) -> Option<()>;
}

/// The remaining instructions of a tag that has read its place.
#[derive(Debug)]
pub struct UnfinishedTag(Vec<Instruction>);

impl UnfinishedTag {
    /// Decodes the rest of the tag that a thread is in. `None` if the tag has not read its place
    /// yet, or if its record is complete. `code`: the bytes from the thread's next instruction on,
    /// at most [`UNFINISHED_BYTES`].
    pub fn decode(code: &[u8], state: &TagRegisters, shape: &LogShape) -> Option<UnfinishedTag> {
        let mut rest = Vec::new();
        let mut is_written = false;
        for instruction in Decoder::with_ip(64, code, state.rip, DecoderOptions::NONE) {
            let belongs = match instruction.mnemonic() {
                Mnemonic::Test => {
                    instruction.try_immediate(1).is_ok_and(|mask| state.r11 & mask != 0)
                }
                Mnemonic::Je => !rest.is_empty() || state.rflags & ZERO == 0,
                Mnemonic::Add | Mnemonic::Prefetchw => true,
                Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Rdtsc => true,
                _ => false,
            };
            if !belongs {
                return None;
            }
            let into_record = instruction.memory_base() == Register::R11;
            is_written |= into_record
                && instruction.op1_kind() == OpKind::Immediate32
                && instruction.memory_displacement64() == shape.word_at();
            rest.push(instruction);
            if instruction.op0_register() == Register::R11 {
                return is_written.then_some(UnfinishedTag(rest));
            }
        }
        None
    }

    /// Number of remaining instructions.
    pub fn instructions(&self) -> usize {
        self.0.len()
    }

    /// The first `count` instructions. If a tag is interrupted behind them, these have been
    /// executed.
    pub fn first(&self, count: usize) -> UnfinishedTag {
        UnfinishedTag(self.0.iter().take(count).copied().collect())
    }

    /// Executes the instructions. If one fails, the result is `None`, and `state` is the state
    /// before this instruction. `tsc`: time for the record.
    pub fn run(
        &self,
        state: &mut TagRegisters,
        tsc: u64,
        memory: &mut impl ThreadMemory,
    ) -> Option<()> {
        for instruction in &self.0 {
            match instruction.mnemonic() {
                Mnemonic::Add => {
                    let (pointer, bytes) =
                        (state.address(instruction)?, instruction.try_immediate(1));
                    let after = memory.read(pointer)?.wrapping_add(bytes.ok()?);
                    memory.write(pointer, &after.to_le_bytes())?;
                }
                Mnemonic::Mov => state.moves(instruction, memory)?,
                Mnemonic::Lea => {
                    // A write to the lower half of a register clears the upper half.
                    let address = state.address(instruction)?.0 & 0xffff_ffff;
                    *state.register(instruction.op0_register())? = address;
                }
                Mnemonic::Rdtsc => (state.rax, state.rdx) = (tsc & 0xffff_ffff, tsc >> 32),
                _ => {}
            }
            state.rip = instruction.next_ip();
        }
        Some(())
    }
}

impl TagRegisters {
    fn register(&mut self, register: Register) -> Option<&mut u64> {
        match register.full_register() {
            Register::RAX => Some(&mut self.rax),
            Register::RDX => Some(&mut self.rdx),
            Register::RSP => Some(&mut self.rsp),
            Register::R11 => Some(&mut self.r11),
            _ => None,
        }
    }

    fn address(&mut self, instruction: &Instruction) -> Option<RunAddr> {
        let base = match instruction.memory_segment() {
            Register::GS => self.gs,
            _ => *self.register(instruction.memory_base())?,
        };
        Some(RunAddr(base.wrapping_add(instruction.memory_displacement64())))
    }

    fn moves(&mut self, instruction: &Instruction, memory: &mut impl ThreadMemory) -> Option<()> {
        match (instruction.op0_kind(), instruction.op1_kind()) {
            (OpKind::Register, OpKind::Memory) => {
                let value = memory.read(self.address(instruction)?)?;
                *self.register(instruction.op0_register())? = value;
                Some(())
            }
            (OpKind::Memory, kind) => {
                let value = match kind {
                    OpKind::Register => *self.register(instruction.op1_register())?,
                    _ => instruction.try_immediate(1).ok()?,
                };
                let bytes = instruction.memory_size().size();
                memory.write(self.address(instruction)?, value.to_le_bytes().get(..bytes)?)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::layout::WhenFull;
    use super::super::{Sink, TagPlace, Tags};
    use super::*;

    const AT: u64 = 0x40_0000;
    const PLACE: u64 = 0x7000_3010;
    const SLOT: u64 = 0x7000_0000;
    const STACK: u64 = 0x7fff_1234_5678;
    const TIME: u64 = 0x1122_3344_5566_7788;

    #[derive(Clone, Default)]
    struct Bytes(BTreeMap<u64, u8>);

    impl ThreadMemory for Bytes {
        fn read(&self, RunAddr(address): RunAddr) -> Option<u64> {
            let byte = |at| self.0.get(&at).copied();
            let bytes: Option<Vec<u8>> = (address..address + 8).map(byte).collect();
            Some(u64::from_le_bytes(bytes?.try_into().ok()?))
        }

        fn write(&mut self, RunAddr(address): RunAddr, bytes: &[u8]) -> Option<()> {
            self.0.extend((address..).zip(bytes.iter().copied()));
            Some(())
        }
    }

    /// A thread that has just found a place, and the memory that it has saved registers in.
    fn found(rip: u64, place: &TagPlace) -> (TagRegisters, Bytes) {
        let down = u64::from(place.red_zone) * 128 + u64::from(place.flags) * 8;
        let state = TagRegisters {
            rip,
            rsp: STACK - down,
            rax: 1,
            rdx: 2,
            r11: PLACE,
            rflags: 0,
            gs: SLOT,
        };
        let mut memory = Bytes::default();
        memory.write(RunAddr(SLOT), &PLACE.to_le_bytes());
        memory.write(RunAddr(state.rsp - 8), &3u64.to_le_bytes());
        (state, memory)
    }

    fn check(shape: LogShape, place: TagPlace) {
        let code = Tags::new(Sink::Log(shape), 0x50_0000, 1).unwrap().code(&place, AT).unwrap();
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, &code, AT, DecoderOptions::NONE).into_iter().collect();
        let from = |state: &TagRegisters| {
            let code = &code[(state.rip - AT) as usize..];
            UnfinishedTag::decode(&code[..UNFINISHED_BYTES.min(code.len())], state, &shape)
        };
        let found_by = instructions
            .iter()
            .position(|instruction| instruction.memory_segment() == Register::GS)
            .unwrap();
        for early in &instructions[..=found_by] {
            assert!(from(&found(early.ip(), &place).0).is_none(), "{place:?}");
        }
        let (start, untouched) = found(instructions[found_by].next_ip(), &place);
        assert!(from(&TagRegisters { r11: PLACE & !0x1000, ..start }).is_none(), "a guard page");
        let whole = from(&start).unwrap();
        for done in 0..whole.0.len() {
            let (mut state, mut memory) = (start, untouched.clone());
            UnfinishedTag(whole.0[..done].to_vec()).run(&mut state, TIME, &mut memory).unwrap();
            let Some(rest) = from(&state) else {
                // Only registers are left to be restored.
                assert!(whole.0[done..].iter().all(|one| one.op1_kind() == OpKind::Memory));
                continue;
            };
            rest.run(&mut state, TIME, &mut memory).unwrap();
            let after = TagRegisters { rip: state.rip, r11: 3, ..start };
            assert_eq!(state, after, "{place:?} {done}");
            assert_eq!(memory.read(RunAddr(SLOT)), Some(PLACE + shape.record_bytes()));
            let word = |offset: u64| {
                u32::from_le_bytes([0, 1, 2, 3].map(|at| memory.0[&(PLACE + offset + at)]))
            };
            let (sp, event) = (word(shape.sp_at()), word(shape.word_at()));
            assert_eq!((sp, event), (STACK as u32, place.word()));
            if shape.is_timed {
                assert_eq!(memory.read(RunAddr(PLACE)), Some(TIME));
            }
        }
    }

    #[test]
    fn a_tag_is_completed_wherever_it_was_interrupted() {
        for is_timed in [true, false] {
            let when_full = WhenFull::Wait;
            let shape = LogShape { is_timed, chunk_bytes: 8192, chunks: 2, when_full };
            for (red_zone, flags) in [(false, false), (true, false), (false, true), (true, true)] {
                check(shape, TagPlace { event: 41, red_zone, flags });
            }
        }
    }
}
