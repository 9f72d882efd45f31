//! Tracks registers through the instructions of a block: their versions, and values that follow
//! from older values.
//!
//! At the start of a block, every register has version 0 and its own value.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use super::expression::Versioned;
use crate::block::Operation;

/// When two accesses are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Equality {
    /// Two accesses are equal if they name the same registers, with the same versions, and the same
    /// displacement. This is the published method.
    #[default]
    Versions,
    /// Two accesses are equal if their addresses are equal sums of older values. A register whose
    /// value is an older version of some register plus a constant is replaced by these two. So the
    /// accesses of `push` and `pop` have the same base. Results are known of
    /// - `mov` between 64-bit registers, and `lea` of a 64-bit register from one register or
    ///   relative to `rip`;
    /// - `add` and `sub` of a constant to a 64-bit register, `inc` and `dec`;
    /// - `push`, `pop`, `call`, `ret`, `enter` and `leave`, for `rsp` and `rbp` only.
    Values,
}

/// Number of `rsp` in encodings.
const RSP: usize = 4;
/// Number of `rbp` in encodings.
const RBP: usize = 5;

/// The part of a value to which a constant is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A version of a register.
    Register(Versioned),
    /// Zero: the value is an address in the program.
    Static,
}

/// A value: its origin plus a constant, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The part to which the constant is added.
    pub origin: Origin,
    /// The constant, in bytes.
    pub offset: i64,
}

impl Value {
    /// The value of a register itself.
    fn of(register: Versioned) -> Self {
        Value { origin: Origin::Register(register), offset: 0 }
    }

    fn plus(self, constant: i64) -> Self {
        Value { offset: self.offset.wrapping_add(constant), ..self }
    }
}

/// The versions and values of registers before an instruction.
pub struct State {
    equality: Equality,
    versions: [u32; 16],
    values: [Value; 16],
    fs: u32,
}

impl State {
    /// The state at the start of a block.
    pub fn new(equality: Equality) -> Self {
        let own = |number| Value::of(Versioned { register: general(number), version: 0 });
        let values = std::array::from_fn(own);
        State { equality, versions: [0; 16], values, fs: 0 }
    }

    /// The version of the base address of `fs`.
    pub fn fs(&self) -> Versioned {
        Versioned { register: Register::FS, version: self.fs }
    }

    /// The value of a general register as part of an address. A register of less than 64 bits has
    /// its own versioned value.
    pub fn value(&self, register: Register) -> Value {
        let number = register.full_register().number();
        if register.is_gpr64() {
            self.values[number]
        } else {
            // The low bits of a sum are not the sum of the low bits, modulo 2^64.
            Value::of(Versioned { register, version: self.versions[number] })
        }
    }

    /// Updates the state with an instruction. `writes_fs`: whether it changes `fs` or its base.
    pub fn execute(&mut self, operation: &Operation, writes_fs: bool) {
        let known = match self.equality {
            Equality::Versions => [None; 2],
            Equality::Values => self.results(&operation.instruction),
        };
        self.fs += u32::from(writes_fs);
        for number in operation.uses.written.iter().map(usize::from) {
            self.versions[number] += 1;
            let own = Versioned { register: general(number), version: self.versions[number] };
            self.values[number] = Value::of(own);
        }
        for (number, value) in known.into_iter().flatten() {
            self.values[number] = value;
        }
    }

    /// Numbers and new values of the registers that an instruction sets to known values.
    fn results(&self, instruction: &Instruction) -> [Option<(usize, Value)>; 2] {
        match stack_effect(instruction) {
            Some(effect) => {
                effect.map(|one| one.map(|Moved { to, of, plus }| (to, self.values[of].plus(plus))))
            }
            None => [self.sum(instruction), None],
        }
    }

    /// Number and new value of the destination of an instruction that sets it to a register plus a
    /// constant, or to an address in the program.
    fn sum(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        let is_register = instruction.op0_kind() == OpKind::Register;
        let to = instruction.op0_register();
        if !is_register || !to.is_gpr64() {
            return None;
        }
        let constant = || {
            let is_constant =
                matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
            is_constant.then(|| instruction.immediate(1) as i64)
        };
        let old = self.value(to);
        let value = match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                let from = instruction.op1_register();
                from.is_gpr64().then(|| self.value(from))
            }
            Mnemonic::Lea => self.loaded_address(instruction),
            Mnemonic::Add => constant().map(|constant| old.plus(constant)),
            Mnemonic::Sub => constant().map(|constant| old.plus(constant.wrapping_neg())),
            Mnemonic::Inc => Some(old.plus(1)),
            Mnemonic::Dec => Some(old.plus(-1)),
            _ => None,
        };
        value.map(|value| (to.number(), value))
    }

    /// The result of `lea` with a 64-bit destination.
    fn loaded_address(&self, instruction: &Instruction) -> Option<Value> {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let displacement = instruction.memory_displacement64() as i64;
        if index != Register::None {
            return None;
        }
        match base {
            Register::RIP => Some(Value { origin: Origin::Static, offset: displacement }),
            base if base.is_gpr64() => Some(self.value(base).plus(displacement)),
            _ => None,
        }
    }
}

/// A register that is set to a register plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Number of the register that is changed.
    pub to: usize,
    /// Number of the register that is used, with its value from before the instruction.
    pub of: usize,
    /// The constant, in bytes.
    pub plus: i64,
}

/// Returns the changes of `rsp` and `rbp` that are known of an instruction that changes `rsp`.
/// `None` for other instructions.
///
/// For `push rax` this is `rsp` = `rsp` - 8; for `leave`, `rsp` = `rbp` + 8, and the new `rbp` is
/// not known.
pub fn stack_effect(instruction: &Instruction) -> Option<[Option<Moved>; 2]> {
    let increment = i64::from(instruction.stack_pointer_increment());
    let rsp = |of, plus| Some(Moved { to: RSP, of, plus });
    match instruction.code() {
        Code::Leaveq => Some([rsp(RBP, 8), None]),
        Code::Enterq_imm16_imm8 => {
            Some([rsp(RSP, increment), Some(Moved { to: RBP, of: RSP, plus: -8 })])
        }
        // `pop rsp` loads a value that is not known.
        _ if instruction.mnemonic() == Mnemonic::Pop
            && instruction.op0_register().full_register() == Register::RSP =>
        {
            Some([None; 2])
        }
        _ if increment != 0 => Some([rsp(RSP, increment), None]),
        _ => None,
    }
}

/// The 64-bit register with a number, 0 to 15.
pub fn general(number: usize) -> Register {
    const ALL: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    ALL[number]
}
