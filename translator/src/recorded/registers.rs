//! Tracks what registers hold before each instruction of a path, as values that are computed from
//! earlier values.
//!
//! A value is a *node* plus a constant, modulo 2^64. A node is either an unknown value or the
//! result of a computation with other nodes. Unknown values are, for example, the value of a
//! register at the start of the path and a value that was loaded from memory. Equal computations
//! with equal nodes have one node.
//!
//! ```text
//! instruction              value of the destination
//! mov  rax, [rdi]          u, a new unknown node
//! lea  rcx, [rax + 4*rsi]  s, the sum of u and the product of rsi and 4
//! add  rcx, 16             s + 16
//! mov  edx, ecx            the lowest 32 bits of s + 16, extended by zeros
//! ```
//!
//! Results are known of these instructions, with operands of 64 bits, or of 32, which are extended
//! by zeros:
//!
//! - `mov`, `movzx`, `movsx`, `movsxd`, `cwde` and `cdqe` between registers;
//! - `lea`, `add`, `sub`, `inc`, `dec` and `neg`;
//! - `imul`, `and` and shifts by constants; `xor` of a register with itself;
//! - `push`, `pop`, `call`, `ret`, `enter` and `leave`, for `rsp` and `rbp` only.

use std::collections::HashMap;

use hmtt_files::access_trace::Operation as Computation;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::block::Operation;
use crate::selection::{Moved, stack_effect};

/// Maximum number of steps from an unknown value to the value of a register, where each step
/// computes with the result of the step before it. A longer computation has a new unknown value as
/// its result.
const MOST_STEPS: u8 = 6;

/// Index of a node in [`Nodes`]. The first 16 are the general registers at the start of the path.
pub type Node = u32;

/// A node plus a constant, or a constant alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The node, if there is one.
    pub node: Option<Node>,
    /// The constant.
    pub plus: i64,
}

/// How a node is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An unknown value: what a register holds after so many writes to it. The register comes
    /// first, by its number.
    Unknown(u8, u32),
    /// The sum of two nodes.
    Sum(Node, Node),
    /// The result of a computation other than a sum, with a node plus a constant as its operand.
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

/// All nodes of a path. Nodes are only added.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    kinds: Vec<Kind>,
    /// By node: the length of the longest series of computations that leads to it.
    steps: Vec<u8>,
    known: HashMap<Kind, Node>,
}

impl Nodes {
    /// How a node is computed.
    pub fn kind(&self, node: Node) -> Kind {
        self.kinds[node as usize]
    }

    /// The node of a register at the start of the path. `register`: its number, 0 to 15.
    pub const fn at_start(&self, register: usize) -> Node {
        // The state begins with one node for each register, in the order of their numbers.
        register as Node
    }

    /// The nodes from which a node is computed: none, one or two.
    pub fn sources(&self, node: Node) -> impl Iterator<Item = Node> + use<> {
        let both = match self.kind(node) {
            Kind::Unknown(..) => [None; 2],
            Kind::Sum(left, right) => [Some(left), Some(right)],
            Kind::Computed(operand, ..) => [Some(operand), None],
        };
        both.into_iter().flatten()
    }

    /// Finds or adds the node of a computation.
    fn value(&mut self, kind: Kind) -> Value {
        let next = self.kinds.len() as Node;
        let node = *self.known.entry(kind).or_insert(next);
        if node == next {
            let step_count = |node: Node| self.steps[node as usize];
            self.steps.push(match kind {
                Kind::Unknown(..) => 0,
                Kind::Sum(left, right) => step_count(left).max(step_count(right)) + 1,
                Kind::Computed(operand, ..) => step_count(operand) + 1,
            });
            self.kinds.push(kind);
        }
        Value { node: Some(node), plus: 0 }
    }

    fn unknown(&mut self, register: usize, writes: u32) -> Value {
        self.value(Kind::Unknown(register as u8, writes))
    }

    /// Splits a node into another node and a factor: `8 * rsi` into `rsi` and 8, and `rsi` into
    /// `rsi` and 1.
    fn factors(&self, node: Node) -> (Node, u64) {
        match self.kind(node) {
            Kind::Computed(operand, 0, Computation::Product { by }) => (operand, by),
            _ => (node, 1),
        }
    }

    /// The sum of two values. Multiples of one node are added up: `rsi + 4 * rsi` becomes `5 *
    /// rsi`, and the difference of equal registers becomes 0.
    fn sum(&mut self, value: Value, other: Value) -> Value {
        let plus = value.plus.wrapping_add(other.plus);
        let (Some(first), Some(second)) = (value.node, other.node) else {
            return Value { node: value.node.or(other.node), plus };
        };
        let ((operand, by), (other_operand, other_by)) =
            (self.factors(first), self.factors(second));
        let sum = if operand == other_operand {
            self.product(Value { node: Some(operand), plus: 0 }, by.wrapping_add(other_by))
        } else {
            self.value(Kind::Sum(first.min(second), first.max(second)))
        };
        sum.plus(plus)
    }

    /// A value times a factor. The constant is multiplied, too: `(rsi + 2) * 4` becomes `4 * rsi`,
    /// plus 8.
    fn product(&mut self, value: Value, factor: u64) -> Value {
        let plus = (value.plus as u64).wrapping_mul(factor) as i64;
        let Some(node) = value.node else { return Value::constant(plus) };
        let (operand, by) = self.factors(node);
        let product = match by.wrapping_mul(factor) {
            0 => Value::constant(0),
            1 => Value { node: Some(operand), plus: 0 },
            by => self.value(Kind::Computed(operand, 0, Computation::Product { by })),
        };
        product.plus(plus)
    }

    /// The result of a computation that depends only on the lowest `bits` bits of a value.
    fn computed(&mut self, value: Value, computation: Computation, bits: u32) -> Value {
        let Value { mut node, mut plus } = value;
        // An extension does not change the lowest bits of its operand, nor of a sum with it.
        while let Some(inner) = node
            && let Kind::Computed(operand, added, extension) = self.kind(inner)
            && let Computation::ZeroExtended { bits: left }
            | Computation::SignExtended { bits: left } = extension
            && u32::from(left) >= bits
        {
            (node, plus) = (Some(operand), plus.wrapping_add(added));
        }
        match node {
            None => Value::constant(computation.apply(plus as u64, |_| 0) as i64),
            Some(node) => self.value(Kind::Computed(node, plus, computation)),
        }
    }

    /// The lowest 32 bits of a value, extended by zeros.
    pub fn low_half(&mut self, value: Value) -> Value {
        self.zero_extended(value, 32)
    }

    /// A value rounded down to a multiple of 2^`alignment`.
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

/// The values of registers before an instruction.
#[derive(Clone, Debug)]
pub struct State {
    /// The nodes from which the values are computed.
    pub nodes: Nodes,
    /// The value of each general register, by its number.
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

/// Size in bits of a part of a register that begins with its lowest bit. `None` for others: `ah`,
/// and 64-bit registers.
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
    /// Updates the state with an instruction: from before it to after it.
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

    /// The value of a register as part of an address: a general register of 64 bits, or a part of
    /// one that begins with its lowest bit, extended by zeros. 0 for [`Register::None`]; `None` for
    /// other registers.
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

    /// The value of an address: base + index * scale + displacement. `None` if a register is no
    /// general one.
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

    /// Numbers and new values of the registers that an instruction sets to known values. A register
    /// that it sets to an unknown value is not in the result.
    fn results(&mut self, instruction: &Instruction) -> [Option<(usize, Value)>; 2] {
        match stack_effect(instruction) {
            Some(effect) => {
                effect.map(|one| one.map(|Moved { to, of, plus }| (to, self.values[of].plus(plus))))
            }
            None => [self.result(instruction), None],
        }
    }

    /// Number and new value of the destination of an instruction; `None` if the value is not known.
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

    /// The result of an instruction. If its operands have 32 bits, the bits above these have no
    /// meaning: the caller clears them. `to`: the destination.
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

    /// The value of a source operand: a register of 32 or 64 bits, or a constant.
    fn source(&mut self, instruction: &Instruction, operand: u32) -> Option<Value> {
        if instruction.op_kind(operand) == OpKind::Register {
            let register = instruction.op_register(operand);
            let is_whole = register.is_gpr64() || register.is_gpr32();
            return is_whole.then(|| self.values[register.full_register().number()]);
        }
        constant(instruction, operand).map(|constant| Value::constant(constant as i64))
    }

    /// The value of operand 1, a part of a register, after an extension by zeros or by its sign.
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

    /// The result of `lea`, before a destination of 32 bits cuts it.
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

    /// The result of a shift by a constant. `old`: the value of the destination `to` before it.
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

/// The value of an immediate operand, extended by its sign. `None` for other operands.
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
