//! What registers hold before an instruction of a path: values that are computed of older ones.
//!
//! A value is a *node* plus a constant, modulo 2^64. A node is a value that is not known, as that
//! of a register at the start of the path or one that was loaded from memory, or is computed of
//! other nodes. Nodes that are computed in the same way are one node.
//!
//! Known are the results of `mov`, `movzx`, `movsx`, `movsxd`, `cwde` and `cdqe` between registers,
//! of `lea`, of `add`, `sub`, `inc`, `dec` and `neg`, of `imul`, `and` and shifts by constants, of
//! `xor` of a register with itself, and of `push`, `pop`, `call`, `ret`, `enter` and `leave` as to
//! `rsp` and `rbp`: with operands of 64 bits, or of 32, which are extended by zeros.

use std::collections::HashMap;

use hmtt_format::access_trace::Operation as Computation;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::block::Operation;
use crate::selection::{Moved, stack_effect};

/// Most computations one of the other that lead to the value of a register. One that more lead to
/// is a new unknown value.
const MOST_STEPS: u8 = 6;

/// Index of a node.
pub type Node = u32;

/// A node plus a constant, or a constant alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The node, if there is one.
    pub node: Option<Node>,
    /// The constant.
    pub plus: i64,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What a register holds, by its number, after it was written so often.
    Unknown(u8, u32),
    /// The sum of two nodes.
    Sum(Node, Node),
    /// What is computed of a node plus a constant: no sum.
    Computed(Node, i64, Computation),
}

impl Value {
    const fn constant(plus: i64) -> Self {
        Value { node: None, plus }
    }

    fn plus(self, constant: i64) -> Self {
        Value { plus: self.plus.wrapping_add(constant), ..self }
    }
}

/// All nodes of a path.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    kinds: Vec<Kind>,
    /// How many computations lead to each node, one of the other.
    steps: Vec<u8>,
    known: HashMap<Kind, Node>,
}

impl Nodes {
    /// What a node is.
    pub fn kind(&self, node: Node) -> Kind {
        self.kinds[node as usize]
    }

    /// What a register holds at the start of the path.
    pub const fn at_start(&self, register: usize) -> Node {
        // The first nodes are these.
        register as Node
    }

    /// The nodes of which a node is computed.
    pub fn sources(&self, node: Node) -> impl Iterator<Item = Node> + use<> {
        let both = match self.kind(node) {
            Kind::Unknown(..) => [None; 2],
            Kind::Sum(one, other) => [Some(one), Some(other)],
            Kind::Computed(of, ..) => [Some(of), None],
        };
        both.into_iter().flatten()
    }

    fn value(&mut self, kind: Kind) -> Value {
        let next = self.kinds.len() as Node;
        let node = *self.known.entry(kind).or_insert(next);
        if node == next {
            let of = |node: Node| self.steps[node as usize];
            self.steps.push(match kind {
                Kind::Unknown(..) => 0,
                Kind::Sum(one, other) => of(one).max(of(other)) + 1,
                Kind::Computed(one, ..) => of(one) + 1,
            });
            self.kinds.push(kind);
        }
        Value { node: Some(node), plus: 0 }
    }

    fn unknown(&mut self, register: usize, writes: u32) -> Value {
        self.value(Kind::Unknown(register as u8, writes))
    }

    /// A node as the product of another one and a factor.
    fn factors(&self, node: Node) -> (Node, u64) {
        match self.kind(node) {
            Kind::Computed(of, 0, Computation::Product { by }) => (of, by),
            _ => (node, 1),
        }
    }

    /// The sum of two values.
    fn sum(&mut self, one: Value, other: Value) -> Value {
        let plus = one.plus.wrapping_add(other.plus);
        let (Some(first), Some(second)) = (one.node, other.node) else {
            return Value { node: one.node.or(other.node), plus };
        };
        let ((of, by), (other_of, other_by)) = (self.factors(first), self.factors(second));
        // As in the difference of equal registers.
        let sum = if of == other_of {
            self.product(Value { node: Some(of), plus: 0 }, by.wrapping_add(other_by))
        } else {
            self.value(Kind::Sum(first.min(second), first.max(second)))
        };
        sum.plus(plus)
    }

    /// A value times a factor.
    fn product(&mut self, value: Value, factor: u64) -> Value {
        let plus = (value.plus as u64).wrapping_mul(factor) as i64;
        let Some(node) = value.node else { return Value::constant(plus) };
        let (of, by) = self.factors(node);
        let product = match by.wrapping_mul(factor) {
            0 => Value::constant(0),
            1 => Value { node: Some(of), plus: 0 },
            by => self.value(Kind::Computed(of, 0, Computation::Product { by })),
        };
        product.plus(plus)
    }

    /// What is computed of the lowest bits of a value.
    fn computed(&mut self, value: Value, computation: Computation, bits: u32) -> Value {
        let Value { mut node, mut plus } = value;
        // An extension leaves the lowest bits, also of a sum, as they are.
        while let Some(inner) = node
            && let Kind::Computed(of, added, extension) = self.kind(inner)
            && let Computation::ZeroExtended { bits: left }
            | Computation::SignExtended { bits: left } = extension
            && u32::from(left) >= bits
        {
            (node, plus) = (Some(of), plus.wrapping_add(added));
        }
        match node {
            None => Value::constant(computation.apply(plus as u64, |_| 0) as i64),
            Some(node) => self.value(Kind::Computed(node, plus, computation)),
        }
    }

    /// The lowest 32 bits of a value, and zeros.
    pub fn low_half(&mut self, value: Value) -> Value {
        self.zero_extended(value, 32)
    }

    /// A value rounded down to a multiple of a power of two.
    pub fn aligned(&mut self, value: Value, alignment: u8) -> Value {
        let mask = u64::MAX << alignment;
        self.computed(value, Computation::Masked { mask }, u64::BITS)
    }

    fn zero_extended(&mut self, value: Value, bits: u8) -> Value {
        let is_short = |node: Node| match self.kind(node) {
            Kind::Computed(_, _, Computation::ZeroExtended { bits: left }) => left <= bits,
            Kind::Computed(_, _, Computation::Masked { mask }) => mask >> bits == 0,
            _ => false,
        };
        if value.plus == 0 && value.node.is_some_and(is_short) {
            return value;
        }
        self.computed(value, Computation::ZeroExtended { bits }, bits.into())
    }

    fn sign_extended(&mut self, value: Value, bits: u8) -> Value {
        self.computed(value, Computation::SignExtended { bits }, bits.into())
    }
}

/// What is known of registers before an instruction.
#[derive(Clone, Debug)]
pub struct State {
    /// The nodes of all values.
    pub nodes: Nodes,
    /// The value of each register.
    pub values: [Value; 16],
    writes: [u32; 16],
}

impl Default for State {
    fn default() -> Self {
        let mut nodes = Nodes::default();
        let values = std::array::from_fn(|register| nodes.unknown(register, 0));
        State { nodes, values, writes: [0; 16] }
    }
}

/// How many bits a part of a register has that begins with its lowest one.
fn low_bits(register: Register) -> Option<u8> {
    use Register::{AH, BH, CH, DH};
    match register {
        AH | BH | CH | DH => None,
        _ if register.is_gpr8() => Some(8),
        _ if register.is_gpr16() => Some(16),
        _ if register.is_gpr32() => Some(32),
        _ => None,
    }
}

impl State {
    /// Continues after an instruction.
    pub fn execute(&mut self, operation: &Operation) {
        let known = self.results(&operation.instruction);
        for number in operation.uses.written.iter().map(usize::from) {
            self.writes[number] += 1;
            self.values[number] = self.nodes.unknown(number, self.writes[number]);
        }
        for (number, value) in known.into_iter().flatten() {
            let steps = value.node.map_or(0, |node| self.nodes.steps[node as usize]);
            if steps <= MOST_STEPS {
                self.values[number] = value;
            }
        }
    }

    /// The value of a general register of 64 bits, or of a part of it that begins with its lowest
    /// bit and is extended by zeros; 0 for none.
    fn register(&mut self, register: Register) -> Option<Value> {
        if register == Register::None {
            return Some(Value::constant(0));
        }
        let value =
            *self.values.get(register.full_register().number()).filter(|_| register.is_gpr())?;
        if register.is_gpr64() {
            return Some(value);
        }
        Some(self.nodes.zero_extended(value, low_bits(register)?))
    }

    /// The sum of a base, an index times a scale, and a displacement.
    pub fn address(
        &mut self,
        [base, index]: [Register; 2],
        scale: u32,
        displacement: i64,
    ) -> Option<Value> {
        let (base, index) = (self.register(base)?, self.register(index)?);
        let index = self.nodes.product(index, scale.into());
        Some(self.nodes.sum(base, index).plus(displacement))
    }

    /// Registers, by number, whose values after an instruction are known, with these values.
    fn results(&mut self, instruction: &Instruction) -> [Option<(usize, Value)>; 2] {
        match stack_effect(instruction) {
            Some(effect) => {
                effect.map(|one| one.map(|Moved { to, of, plus }| (to, self.values[of].plus(plus))))
            }
            None => [self.result(instruction), None],
        }
    }

    /// The destination, by number, and its value, of an instruction whose result is known.
    fn result(&mut self, instruction: &Instruction) -> Option<(usize, Value)> {
        if matches!(instruction.mnemonic(), Mnemonic::Cdqe | Mnemonic::Cwde) {
            let rax = self.values[0];
            let value = match instruction.mnemonic() {
                Mnemonic::Cdqe => self.nodes.sign_extended(rax, 32),
                _ => {
                    let extended = self.nodes.sign_extended(rax, 16);
                    self.nodes.low_half(extended)
                }
            };
            return Some((0, value));
        }
        let to = instruction.op0_register();
        let is_whole = to.is_gpr64() || to.is_gpr32();
        if instruction.op0_kind() != OpKind::Register || !is_whole {
            return None;
        }
        let value = self.computed(instruction, to)?;
        let value = if to.is_gpr32() { self.nodes.low_half(value) } else { value };
        Some((to.full_register().number(), value))
    }

    /// What an instruction computes, with bits above its operands' that do not matter.
    fn computed(&mut self, instruction: &Instruction, to: Register) -> Option<Value> {
        let old = self.values[to.full_register().number()];
        match instruction.mnemonic() {
            Mnemonic::Mov => self.source(instruction, 1),
            Mnemonic::Movzx => self.part(instruction, Nodes::zero_extended),
            Mnemonic::Movsx | Mnemonic::Movsxd => self.part(instruction, Nodes::sign_extended),
            Mnemonic::Lea => self.loaded_address(instruction),
            Mnemonic::Add => {
                let added = self.source(instruction, 1)?;
                Some(self.nodes.sum(old, added))
            }
            Mnemonic::Sub => {
                let source = self.source(instruction, 1)?;
                let negative = self.nodes.product(source, u64::MAX);
                Some(self.nodes.sum(old, negative))
            }
            Mnemonic::Inc => Some(old.plus(1)),
            Mnemonic::Dec => Some(old.plus(-1)),
            Mnemonic::Neg => Some(self.nodes.product(old, u64::MAX)),
            Mnemonic::Xor if instruction.op1_kind() == OpKind::Register => {
                (instruction.op1_register() == to).then_some(Value::constant(0))
            }
            Mnemonic::Imul if instruction.op_count() == 3 => {
                let source = self.source(instruction, 1)?;
                Some(self.nodes.product(source, constant(instruction, 2)?))
            }
            Mnemonic::And => {
                let mask = constant(instruction, 1)?;
                let mask = if to.is_gpr32() { u64::from(mask as u32) } else { mask };
                let computation = Computation::Masked { mask };
                Some(self.nodes.computed(old, computation, 64 - mask.leading_zeros()))
            }
            Mnemonic::Shl | Mnemonic::Sal | Mnemonic::Shr | Mnemonic::Sar => {
                self.shifted(instruction, to, old)
            }
            _ => None,
        }
    }

    /// The value of a source: a whole register, or a constant.
    fn source(&mut self, instruction: &Instruction, operand: u32) -> Option<Value> {
        if instruction.op_kind(operand) == OpKind::Register {
            let register = instruction.op_register(operand);
            let is_whole = register.is_gpr64() || register.is_gpr32();
            return is_whole.then(|| self.values[register.full_register().number()]);
        }
        constant(instruction, operand).map(|constant| Value::constant(constant as i64))
    }

    /// The source of an instruction, a part of a register, as it is extended.
    fn part(
        &mut self,
        instruction: &Instruction,
        extended: fn(&mut Nodes, Value, u8) -> Value,
    ) -> Option<Value> {
        if instruction.op1_kind() != OpKind::Register {
            return None;
        }
        let register = instruction.op1_register();
        let value = self.values[register.full_register().number()];
        Some(extended(&mut self.nodes, value, low_bits(register)?))
    }

    /// The result of `lea`.
    fn loaded_address(&mut self, instruction: &Instruction) -> Option<Value> {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let displacement = instruction.memory_displacement64() as i64;
        match (base, index) {
            (Register::RIP, _) => return Some(Value::constant(displacement)),
            (Register::None, Register::None) => return None,
            _ => {}
        }
        let value = self.address([base, index], instruction.memory_index_scale(), displacement)?;
        let is_narrow = base.is_gpr32() || index.is_gpr32();
        Some(if is_narrow { self.nodes.low_half(value) } else { value })
    }

    /// The result of a shift by a constant.
    fn shifted(&mut self, instruction: &Instruction, to: Register, old: Value) -> Option<Value> {
        let bits = if to.is_gpr32() { 32 } else { 64 };
        let by = (constant(instruction, 1)? % bits) as u8;
        if by == 0 {
            return None;
        }
        let (value, computation) = match instruction.mnemonic() {
            Mnemonic::Shr => (self.register(to)?, Computation::ShiftedRight { by }),
            Mnemonic::Sar if to.is_gpr32() => {
                let extended = self.nodes.sign_extended(old, 32);
                (extended, Computation::ArithmeticallyShiftedRight { by })
            }
            Mnemonic::Sar => (old, Computation::ArithmeticallyShiftedRight { by }),
            _ => return Some(self.nodes.product(old, 1 << by)),
        };
        Some(self.nodes.computed(value, computation, u64::BITS))
    }
}

/// The value of an operand that is a constant, extended by its sign.
fn constant(instruction: &Instruction, operand: u32) -> Option<u64> {
    use OpKind::{
        Immediate8, Immediate8to32, Immediate8to64, Immediate32, Immediate32to64, Immediate64,
    };
    let is_constant = matches!(
        instruction.op_kind(operand),
        Immediate8 | Immediate8to32 | Immediate8to64 | Immediate32 | Immediate32to64 | Immediate64
    );
    is_constant.then(|| instruction.immediate(operand))
}
