//! Reconstructs the state that an interrupted thread would have without its stub.
//!
//! A tag leaves the program's state unchanged: it saves the registers and flags that it uses on the
//! stack and restores them. Therefore the program's state is the same before a tag, within it and
//! after it. If a thread is interrupted within a tag, the program's state is restored from the
//! values that the tag has saved. The thread continues before or after the tag, depending on
//! whether the tag has had its effect.
//!
//! A *boundary* is an address in a stub at which the thread has the state of the original program
//! before one of its instructions. Boundaries are the start and the end of each tag, and each moved
//! instruction. The code is decoded up to the thread's address. This ignores branches of tags,
//! because they skip no instruction that saves or restores state.
//!
//! For example, a tag is `pushfq; inc qword gs:[8]; popfq`. A thread that is interrupted before
//! `inc` gets its flags from the stack and continues at the start of the tag. Interrupted before
//! `popfq`, it gets its flags from the stack and continues at the end of the tag, because the tag
//! has counted.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use libc::user_regs_struct;

use super::unfinished_tag::ThreadMemory;
use crate::address::{FileAddr, LoadBias, RunAddr};

/// Bytes of a register on the stack.
const WORD: i64 = 8;

/// The address range of a tag's code in a stub, in the address space `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagCode<A> {
    /// Address of the tag's first instruction.
    pub start: A,
    /// Address behind the tag's last instruction.
    pub end: A,
    /// Address of the original instruction that is executed after the tag.
    pub original: A,
}

impl TagCode<FileAddr> {
    /// Makes the range of a tag in a stub that is being generated, from addresses in the file.
    pub(super) fn in_file(start: u64, end: u64, original: u64) -> Self {
        TagCode { start: FileAddr(start), end: FileAddr(end), original: FileAddr(original) }
    }

    /// The range of the tag in the memory of a process.
    pub fn in_process(&self, bias: LoadBias) -> TagCode<RunAddr> {
        TagCode {
            start: bias.to_run(self.start),
            end: bias.to_run(self.end),
            original: bias.to_run(self.original),
        }
    }
}

impl TagCode<RunAddr> {
    /// Whether an address is inside the tag, and is neither its start nor its end.
    pub fn is_within(&self, address: RunAddr) -> bool {
        self.start < address && address < self.end
    }
}

/// Effects of straight-line code: the saved registers, and the change of the stack pointer.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Change of the stack pointer, in bytes.
    depth: i64,
    /// Saved registers, with the offset of each from the stack pointer at the start.
    saved: Vec<(Register, i64)>,
    /// Offset of the saved flags from the stack pointer at the start; `None` if no flags are saved.
    flags: Option<i64>,
    /// Whether the tag has counted, written its record, or finished waiting.
    pub is_done: bool,
}

impl Effects {
    /// Finds the effects of instructions that were executed one after the other.
    pub fn from_code(code: &[u8]) -> Effects {
        let mut effects = Effects::default();
        for instruction in Decoder::new(64, code, DecoderOptions::NONE) {
            effects.add(&instruction);
        }
        effects
    }

    fn add(&mut self, instruction: &Instruction) {
        let (to, from) = (instruction.op0_register(), instruction.op1_register());
        let on_stack = (instruction.memory_base() == Register::RSP)
            .then(|| self.depth.wrapping_add(instruction.memory_displacement64().cast_signed()));
        match instruction.mnemonic() {
            Mnemonic::Lea if to == Register::RSP => self.depth = on_stack.unwrap_or(self.depth),
            Mnemonic::Pushfq => {
                self.depth -= WORD;
                self.flags = Some(self.depth);
            }
            Mnemonic::Popfq => {
                self.flags = None;
                self.depth += WORD;
            }
            Mnemonic::Push => {
                self.depth -= WORD;
                if to != Register::None {
                    self.saved.push((to, self.depth));
                }
            }
            Mnemonic::Pop => {
                self.saved.retain(|(register, _)| *register != to);
                self.depth += WORD;
            }
            Mnemonic::Mov => match on_stack {
                Some(at) if instruction.op0_kind() == OpKind::Memory => self.saved.push((from, at)),
                Some(at) => self.saved.retain(|saved| *saved != (to, at)),
                // A store of a constant is the effect of the tag: the event word for a card, the
                // last word of a record, or the flag that a thread has given up waiting at a
                // breakpoint.
                None => {
                    self.is_done |= instruction.op0_kind() == OpKind::Memory
                        && instruction.op1_kind() == OpKind::Immediate32;
                }
            },
            Mnemonic::Inc => self.is_done = true,
            _ => {}
        }
    }

    /// Restores the registers that a thread had at the start of the code, except `rip`. `None` if
    /// the thread's stack cannot be read.
    pub fn undo(&self, registers: &mut user_regs_struct, memory: &impl ThreadMemory) -> Option<()> {
        let start = registers.rsp.wrapping_sub(self.depth.cast_unsigned());
        let value = |at: i64| memory.read(RunAddr(start.wrapping_add(at.cast_unsigned())));
        if let Some(at) = self.flags {
            registers.eflags = value(at)?;
        }
        for (saved, at) in &self.saved {
            *register(registers, *saved)? = value(*at)?;
        }
        registers.rsp = start;
        Some(())
    }
}

/// Executes instructions that restore registers, up to the jump behind them, and sets `rip` to the
/// target of the jump. `None` if the code has other instructions.
pub fn restore_registers(
    code: &[u8],
    registers: &mut user_regs_struct,
    memory: &impl ThreadMemory,
) -> Option<()> {
    for instruction in Decoder::new(64, code, DecoderOptions::NONE) {
        match instruction.mnemonic() {
            Mnemonic::Lea if instruction.memory_base() == Register::RSP => {
                let to = registers.rsp.wrapping_add(instruction.memory_displacement64());
                *register(registers, instruction.op0_register())? = to;
            }
            Mnemonic::Pop => {
                *register(registers, instruction.op0_register())? =
                    memory.read(RunAddr(registers.rsp))?;
                registers.rsp = registers.rsp.wrapping_add(WORD.cast_unsigned());
            }
            Mnemonic::Jmp => {
                registers.rip = *register(registers, instruction.op0_register())?;
                return Some(());
            }
            _ => return None,
        }
    }
    None
}

/// The field of a general register.
fn register(registers: &mut user_regs_struct, which: Register) -> Option<&mut u64> {
    Some(match which {
        Register::RAX => &mut registers.rax,
        Register::RBX => &mut registers.rbx,
        Register::RCX => &mut registers.rcx,
        Register::RDX => &mut registers.rdx,
        Register::RSI => &mut registers.rsi,
        Register::RDI => &mut registers.rdi,
        Register::RBP => &mut registers.rbp,
        Register::RSP => &mut registers.rsp,
        Register::R8 => &mut registers.r8,
        Register::R9 => &mut registers.r9,
        Register::R10 => &mut registers.r10,
        Register::R11 => &mut registers.r11,
        Register::R12 => &mut registers.r12,
        Register::R13 => &mut registers.r13,
        Register::R14 => &mut registers.r14,
        Register::R15 => &mut registers.r15,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hmtt_files::tag_log::FunctionId;

    use super::super::chunk_switch;
    use super::super::layout::{LogShape, WhenFull};
    use super::super::{Sink, TagPlace, Tags};
    use super::*;

    const AT: u64 = 0x40_0000;
    const STACK: u64 = 0x7fff_1234_5678;

    #[derive(Default)]
    struct Stack(BTreeMap<u64, u64>);

    impl ThreadMemory for &Stack {
        fn read(&self, address: RunAddr) -> Option<u64> {
            self.0.get(&address.0).copied()
        }

        fn write(&mut self, _: RunAddr, _: &[u8]) -> Option<()> {
            None
        }
    }

    /// A thread whose registers all differ.
    fn thread() -> user_regs_struct {
        // SAFETY: integers only.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.rax, registers.rbx, registers.rcx, registers.rdx) = (1, 2, 3, 4);
        (registers.rsi, registers.rdi, registers.rbp, registers.r10) = (5, 6, 7, 8);
        (registers.r11, registers.r12, registers.r13, registers.r14) = (9, 10, 11, 12);
        (registers.rsp, registers.eflags) = (STACK, 0x246);
        registers
    }

    /// Executes the effects of a tag on the stack and registers. Other registers that it writes get
    /// an arbitrary value.
    fn execute(instruction: &Instruction, thread: &mut user_regs_struct, stack: &mut Stack) {
        let at = thread.rsp.wrapping_add(instruction.memory_displacement64());
        let is_on_stack = instruction.memory_base() == Register::RSP;
        let mut push = |thread: &mut user_regs_struct, value| {
            thread.rsp -= 8;
            stack.0.insert(thread.rsp, value);
        };
        match instruction.mnemonic() {
            Mnemonic::Pushfq => push(thread, thread.eflags),
            Mnemonic::Popfq => {
                thread.eflags = stack.0[&thread.rsp];
                thread.rsp += 8;
            }
            Mnemonic::Push => {
                let value = register(thread, instruction.op0_register()).map_or(u64::MAX, |it| *it);
                push(thread, value);
            }
            Mnemonic::Pop => {
                *register(thread, instruction.op0_register()).unwrap() = stack.0[&thread.rsp];
                thread.rsp += 8;
            }
            Mnemonic::Mov if is_on_stack && instruction.op0_kind() == OpKind::Memory => {
                stack.0.insert(at, *register(thread, instruction.op1_register()).unwrap());
            }
            Mnemonic::Mov if is_on_stack => {
                *register(thread, instruction.op0_register()).unwrap() = stack.0[&at];
            }
            Mnemonic::Lea if instruction.op0_register() == Register::RSP => thread.rsp = at,
            Mnemonic::Rdtsc => (thread.rax, thread.rdx) = (u64::MAX, u64::MAX),
            Mnemonic::Add | Mnemonic::Inc | Mnemonic::Test => thread.eflags = 0,
            _ if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register => {
                let to = instruction.op0_register().full_register();
                *register(thread, to).unwrap() = u64::MAX;
            }
            _ => {}
        }
    }

    fn check(sink: Sink, place: TagPlace) {
        let code = Tags::new(sink, 0x50_0000, 1).unwrap().code(&place, AT).unwrap();
        let (mut now, mut stack, mut done) = (thread(), Stack::default(), Vec::new());
        for instruction in Decoder::with_ip(64, &code, AT, 0) {
            let effects = Effects::from_code(&code[..(instruction.ip() - AT) as usize]);
            let mut before = now;
            effects.undo(&mut before, &&stack).unwrap();
            // Flags are not live where the tag does not save them.
            before.eflags = if place.flags { before.eflags } else { thread().eflags };
            assert_eq!(before, thread(), "{sink:?} {place:?} {:x}", instruction.ip());
            done.push(effects.is_done);
            execute(&instruction, &mut now, &mut stack);
        }
        let is_done = Effects::from_code(&code).is_done;
        assert!(!done[0] && is_done && done.is_sorted(), "{sink:?} {place:?} {done:?}");
    }

    fn shape(is_timed: bool) -> LogShape {
        LogShape { is_timed, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Wait }
    }

    #[test]
    fn registers_are_restored_wherever_a_tag_is_interrupted() {
        let logs = [true, false].map(|is_timed| Sink::Log(shape(is_timed)));
        for sink in [Sink::Count, Sink::Card, logs[0], logs[1]] {
            for (red_zone, flags) in [(false, false), (true, false), (false, true), (true, true)] {
                check(sink, TagPlace { event: 42, red_zone, flags });
            }
        }
        check(Sink::Breakpoint { shared: RunAddr(0x6000_0000) }, TagPlace::entry(FunctionId(0)));
    }

    #[test]
    fn registers_are_restored_at_both_ends_of_the_chunk_switch() {
        let code = chunk_switch::code(&shape(true), AT).unwrap();
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, &code, AT, 0).into_iter().collect();
        let is_call = |instruction: &Instruction| instruction.mnemonic() == Mnemonic::Syscall;
        let first = instructions.iter().position(is_call).unwrap();
        let last = instructions.iter().rposition(is_call).unwrap();
        let (mut now, mut stack) = (thread(), Stack::default());
        for instruction in &instructions[..=first] {
            let mut before = now;
            Effects::from_code(&code[..(instruction.ip() - AT) as usize])
                .undo(&mut before, &&stack)
                .unwrap();
            assert_eq!(before, thread(), "{:x}", instruction.ip());
            execute(instruction, &mut now, &mut stack);
        }
        for instruction in &instructions[last + 1..] {
            let mut after = now;
            restore_registers(&code[(instruction.ip() - AT) as usize..], &mut after, &&stack)
                .unwrap();
            assert_eq!(after, user_regs_struct { rip: thread().r11, ..thread() });
            execute(instruction, &mut now, &mut stack);
        }
    }
}
