//! Executes instructions of generated code in place of a thread that is stopped at them.
//!
//! The original state of a thread is not known at a few generated instructions. The controller
//! executes these itself, up to an instruction at which the state is known. The thread does not run
//! meanwhile, so it is safe if the controller is killed. If it were resumed for one instruction
//! instead, the trap after that instruction would end it without a controller.
//!
//! The instructions read registers, fields of the thread area and records in the cache. They write
//! registers and fields. Status flags are not computed: none of these instructions reads them, and
//! the program's flags are saved where they change.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Maximum number of bytes of an instruction.
pub const MOST_BYTES: usize = 15;

/// The registers of a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// General registers, by their numbers in encodings.
    pub general: [u64; 16],
    /// The instruction pointer.
    pub rip: u64,
}

/// Memory that these instructions access. Values have 4 or 8 bytes. `None`: it cannot be accessed.
pub trait Fields {
    /// Reads memory of the process, such as a record in the cache.
    fn load(&self, address: u64, bytes: usize) -> Option<u64>;
    /// Reads a field of the thread area.
    fn field(&self, offset: u64, bytes: usize) -> Option<u64>;
    /// Writes a field of the thread area.
    fn set_field(&self, offset: u64, bytes: usize, value: u64) -> Option<()>;
}

impl Thread {
    /// Executes the instruction at the instruction pointer. `code`: bytes from there on, at least
    /// all bytes of the instruction. `None` if it is an instruction that is never executed here, or
    /// accesses other memory. The thread is then unchanged.
    ///
    /// For example, `lea rcx, [rcx - 1]` with 100 in `rcx` sets `rcx` to 99 and `rip` to the next
    /// instruction.
    pub fn execute(&mut self, code: &[u8], fields: &dyn Fields) -> Option<()> {
        let instruction = Decoder::with_ip(64, code, self.rip, DecoderOptions::NONE).decode();
        let execution = Execution { thread: self, instruction: &instruction, fields };
        let next = instruction.next_ip();
        self.rip = match instruction.mnemonic() {
            Mnemonic::Nop => next,
            Mnemonic::Jmp if is_direct(&instruction) => instruction.near_branch64(),
            Mnemonic::Jrcxz if self.general[1] == 0 => instruction.near_branch64(),
            Mnemonic::Jrcxz => next,
            _ => {
                let value = execution.result()?;
                self.write(&instruction, fields, value)?;
                next
            }
        };
        Some(())
    }

    /// Writes a value to the first operand of an instruction, a register or a field.
    fn write(&mut self, instruction: &Instruction, fields: &dyn Fields, value: u64) -> Option<()> {
        if instruction.op0_kind() == OpKind::Register {
            let register = instruction.op0_register();
            let is_whole = register.is_gpr64();
            let number = number(register)?;
            self.general[number] = if is_whole { value } else { u64::from(value as u32) };
            return Some(());
        }
        let execution = Execution { thread: self, instruction, fields };
        let (offset, bytes) = (execution.field_offset()?, execution.memory_bytes()?);
        fields.set_field(offset, bytes, value)
    }
}

fn is_direct(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::NearBranch64
}

/// Number of a general register of 8 or 4 bytes; `None` for other registers.
fn number(register: Register) -> Option<usize> {
    (register.is_gpr64() || register.is_gpr32()).then(|| register.number())
}

/// An instruction that is being executed.
struct Execution<'a> {
    thread: &'a Thread,
    instruction: &'a Instruction,
    fields: &'a dyn Fields,
}

impl Execution<'_> {
    fn register(&self, register: Register) -> Option<u64> {
        let value = self.thread.general[number(register)?];
        Some(if register.is_gpr32() { u64::from(value as u32) } else { value })
    }

    /// The sum of base, scaled index and displacement of the memory operand, without a segment.
    fn effective(&self) -> Option<u64> {
        let instruction = self.instruction;
        let part = |register| match register {
            Register::None => Some(0),
            // The displacement is then the whole address.
            Register::RIP => Some(0),
            register if register.is_gpr64() => self.register(register),
            _ => None,
        };
        let index = part(instruction.memory_index())?;
        let index = index.wrapping_mul(instruction.memory_index_scale().into());
        let sum = part(instruction.memory_base())?.wrapping_add(index);
        Some(sum.wrapping_add(instruction.memory_displacement64()))
    }

    /// Offset of the memory operand in the thread area; `None` if it is no field.
    fn field_offset(&self) -> Option<u64> {
        let is_field = self.instruction.segment_prefix() == Register::GS;
        if is_field { self.effective() } else { None }
    }

    /// Size of the memory operand in bytes; `None` unless it is 4 or 8.
    fn memory_bytes(&self) -> Option<usize> {
        Some(self.instruction.memory_size().size()).filter(|bytes| matches!(bytes, 4 | 8))
    }

    /// The value of an operand.
    fn operand(&self, operand: u32) -> Option<u64> {
        match self.instruction.op_kind(operand) {
            OpKind::Register => self.register(self.instruction.op_register(operand)),
            OpKind::Memory => {
                let bytes = self.memory_bytes()?;
                match self.field_offset() {
                    Some(offset) => self.fields.field(offset, bytes),
                    None if self.instruction.segment_prefix() == Register::None => {
                        self.fields.load(self.effective()?, bytes)
                    }
                    None => None,
                }
            }
            OpKind::Immediate8
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32
            | OpKind::Immediate32to64
            | OpKind::Immediate64 => Some(self.instruction.immediate(operand)),
            _ => None,
        }
    }

    /// Size of the first operand in bits, 32 or 64.
    fn bits(&self) -> Option<u32> {
        let is_half = match self.instruction.op0_kind() {
            OpKind::Register => self.instruction.op0_register().is_gpr32(),
            _ => self.memory_bytes()? == 4,
        };
        Some(if is_half { 32 } else { 64 })
    }

    /// The new value of the first operand; `None` for instructions that are never executed here.
    fn result(&self) -> Option<u64> {
        let bits = self.bits()?;
        let cut = |value: u64| if bits == 32 { u64::from(value as u32) } else { value };
        let value = match self.instruction.mnemonic() {
            Mnemonic::Mov => self.operand(1)?,
            Mnemonic::Lea => self.effective()?,
            Mnemonic::Inc => self.operand(0)?.wrapping_add(1),
            Mnemonic::Add => self.operand(0)?.wrapping_add(self.operand(1)?),
            Mnemonic::Sub => self.operand(0)?.wrapping_sub(self.operand(1)?),
            Mnemonic::Shl => self.operand(0)? << (self.operand(1)? as u32 % bits),
            Mnemonic::Shr => cut(self.operand(0)?) >> (self.operand(1)? as u32 % bits),
            _ => return None,
        };
        Some(cut(value))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// Fields, of which each begins with its offset as value.
    #[derive(Default)]
    struct Written(RefCell<BTreeMap<u64, (usize, u64)>>);

    impl Fields for Written {
        fn load(&self, address: u64, bytes: usize) -> Option<u64> {
            (bytes == 8).then_some(address + 1)
        }

        fn field(&self, offset: u64, _: usize) -> Option<u64> {
            Some(offset)
        }

        fn set_field(&self, offset: u64, bytes: usize, value: u64) -> Option<()> {
            self.0.borrow_mut().insert(offset, (bytes, value));
            Some(())
        }
    }

    /// Number and new value of a register.
    type Change = (usize, u64);
    /// Offset, bytes and value of a field that was written.
    type Store = (u64, (usize, u64));

    /// Executes one instruction at 0x1000, with registers that have 100 times their number. Returns
    /// the registers that have changed and what was written.
    fn executed(code: &[u8]) -> Option<(Vec<Change>, u64, Vec<Store>)> {
        let general: [u64; 16] = std::array::from_fn(|number| 100 * number as u64);
        let (mut thread, written) = (Thread { general, rip: 0x1000 }, Written::default());
        thread.execute(code, &written)?;
        let changed = (0..16).filter(|number| thread.general[*number] != general[*number]);
        let changed = changed.map(|number| (number, thread.general[number])).collect();
        Some((changed, thread.rip - 0x1000, written.0.into_inner().into_iter().collect()))
    }

    #[test]
    fn generated_instructions_are_executed() {
        let changes: [(&[u8], usize, u64); 9] = [
            // lea rcx, [rcx - 1]; lea rcx, [rcx + r11]; lea ecx, [rdx + 1]
            (&[0x48, 0x8d, 0x49, 0xff], 1, 99),
            (&[0x4a, 0x8d, 0x0c, 0x19], 1, 1200),
            (&[0x8d, 0x4a, 1], 1, 201),
            // mov r11, 0x1122334455667788; mov r11, -1
            (
                &[0x49, 0xbb, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
                11,
                0x1122_3344_5566_7788,
            ),
            (&[0x49, 0xc7, 0xc3, 0xff, 0xff, 0xff, 0xff], 11, u64::MAX),
            // mov rax, [rcx]; mov rax, gs:[0x88]
            (&[0x48, 0x8b, 1], 0, 101),
            (&[0x65, 0x48, 0x8b, 0x04, 0x25, 0x88, 0, 0, 0], 0, 0x88),
            // shl rcx, 24; sub rsi, r15
            (&[0x48, 0xc1, 0xe1, 24], 1, 100 << 24),
            (&[0x4c, 0x29, 0xfe], 6, 600u64.wrapping_sub(1500)),
        ];
        for (code, register, value) in changes {
            let expected = (vec![(register, value)], code.len() as u64, Vec::new());
            assert_eq!(executed(code), Some(expected), "{code:x?}");
        }
        // mov gs:[8], rax; mov dword gs:[rdx * 4 + 256], 1; inc qword gs:[208]
        let stores: [(&[u8], u64, usize, u64); 3] = [
            (&[0x65, 0x48, 0x89, 0x04, 0x25, 8, 0, 0, 0], 8, 8, 0),
            (&[0x65, 0xc7, 0x04, 0x95, 0, 1, 0, 0, 1, 0, 0, 0], 1056, 4, 1),
            (&[0x65, 0x48, 0xff, 0x04, 0x25, 208, 0, 0, 0], 208, 8, 209),
        ];
        for (code, offset, bytes, value) in stores {
            let expected = (Vec::new(), code.len() as u64, vec![(offset, (bytes, value))]);
            assert_eq!(executed(code), Some(expected), "{code:x?}");
        }
        // jmp 0x1100; jrcxz 0x1007 with rcx 100
        assert_eq!(executed(&[0xe9, 0xfb, 0, 0, 0]), Some((Vec::new(), 0x100, Vec::new())));
        assert_eq!(executed(&[0xe3, 5]), Some((Vec::new(), 2, Vec::new())));
    }

    #[test]
    fn other_instructions_are_not() {
        // mov [rcx], rax; mov al, 1; syscall; jmp rcx; push rax; mov rax, fs:[0]; add al, 127; an
        // invalid one
        let others: [&[u8]; 8] = [
            &[0x48, 0x89, 1],
            &[0xb0, 1],
            &[0x0f, 5],
            &[0xff, 0xe1],
            &[0x50],
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
            &[4, 127],
            &[0x06],
        ];
        for code in others {
            assert_eq!(executed(code), None, "{code:x?}");
        }
    }
}
