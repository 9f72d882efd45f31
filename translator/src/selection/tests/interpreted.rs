//! Compares expressions with addresses that a small interpreter computes: equal expressions have
//! equal addresses, and those at distance zero are less than a chunk apart.

use iced_x86::code_asm::{CodeAssembler, CodeLabel, ptr, qword_ptr};
use iced_x86::{IcedError, code_asm::AsmRegister64, code_asm::registers::gpr64};

use super::super::{Chunk, Template};
use super::{Block, Equality, Expression, Random, accesses, block};

/// Registers that instructions use, by number; `rsp` is the last one.
const REGISTERS: [AsmRegister64; 6] =
    [gpr64::rax, gpr64::rcx, gpr64::rsi, gpr64::r12, gpr64::rbp, gpr64::rsp];
const RBP: usize = 4;
const RSP: usize = 5;
/// Address of the block.
const START: u64 = 0x1000;

/// A program as it is generated: values of registers, and the addresses that it has accessed.
struct Machine {
    registers: [u64; 6],
    addresses: Vec<u64>,
    random: Random,
}

impl Machine {
    /// The value of memory, which is unknown.
    fn load(&mut self, at: u64) -> u64 {
        self.addresses.push(at);
        self.random.below(u64::MAX)
    }

    fn push(&mut self) {
        self.registers[RSP] = self.registers[RSP].wrapping_sub(8);
        self.addresses.push(self.registers[RSP]);
    }

    fn pop(&mut self) -> u64 {
        let loaded = self.load(self.registers[RSP]);
        self.registers[RSP] = self.registers[RSP].wrapping_add(8);
        loaded
    }

    /// Generates an instruction and executes it. `start`: start of the block.
    fn step(&mut self, asm: &mut CodeAssembler, start: CodeLabel) -> Result<(), IcedError> {
        let target = self.random.below(6) as usize;
        let other = self.random.below(6) as usize;
        let index = self.random.below(5) as usize;
        let constant = self.random.one_of(&[-0x20, -8, 0, 4, 8, 0x10]);
        let added = |value: u64| value.wrapping_add(constant as i64 as u64);
        let [to, from, scaled] = [target, other, index].map(|number| REGISTERS[number]);
        let values = self.registers;
        match self.random.below(14) {
            0 => {
                self.registers[target] = values[other];
                asm.mov(to, from)
            }
            1 | 2 => {
                self.registers[target] = self.load(added(values[other]));
                asm.mov(to, qword_ptr(from + constant))
            }
            3 | 4 => {
                let at = added(values[other]).wrapping_add(values[index].wrapping_mul(4));
                self.addresses.push(at);
                asm.mov(qword_ptr(from + scaled * 4 + constant), to)
            }
            5 => {
                self.registers[target] = added(values[other]);
                asm.lea(to, ptr(from + constant))
            }
            6 => {
                self.registers[target] = START;
                asm.lea(to, ptr(start))
            }
            7 => {
                self.registers[target] = added(values[target]);
                asm.add(to, constant)
            }
            8 => {
                self.registers[target] = values[target].wrapping_sub(constant as i64 as u64);
                asm.sub(to, constant)
            }
            9 => {
                self.registers[target] = values[target].wrapping_add(1);
                asm.inc(to)
            }
            10 => {
                self.push();
                asm.push(to)
            }
            11 => {
                let loaded = self.pop();
                self.registers[target] = loaded;
                asm.pop(to)
            }
            12 => {
                self.registers[RSP] = values[RBP];
                self.registers[RBP] = self.pop();
                asm.leave()
            }
            _ => {
                self.push();
                self.registers[RBP] = self.registers[RSP];
                self.registers[RSP] = self.registers[RSP].wrapping_sub(0x20);
                asm.enter(0x20, 0)
            }
        }
    }
}

/// Returns a random block and the addresses that it accesses in an execution.
fn executed(seed: u64) -> (Block, Vec<u64>) {
    let mut random = Random(seed);
    let registers = std::array::from_fn(|_| random.below(u64::MAX));
    let mut machine = Machine { registers, addresses: Vec::new(), random };
    let block = block(|asm| {
        let mut start = asm.create_label();
        asm.set_label(&mut start)?;
        (0..40).try_for_each(|_| machine.step(asm, start))
    });
    assert_eq!(block.start.0, START);
    (block, machine.addresses)
}

/// Pairs of accesses of one block.
#[derive(Debug, Default)]
struct Pairs {
    /// Pairs with equal expressions.
    equal: usize,
    /// Pairs at distance zero in chunks of 64 bytes.
    near: usize,
    /// Pairs whose addresses contradict that.
    wrong: usize,
}

/// Compares expressions, after a change, with addresses in many random blocks.
fn compared(equality: Equality, change: fn(&Expression) -> Expression) -> Pairs {
    let mut pairs = Pairs::default();
    for seed in 0..1000 {
        let (block, addresses) = executed(seed);
        let accesses = accesses(&block, equality);
        assert_eq!(accesses.len(), addresses.len(), "seed {seed}");
        let expressions =
            accesses.iter().map(|access| change(access.address.expression().unwrap()));
        let places: Vec<(Expression, u64)> = expressions.zip(addresses).collect();
        for (number, (expression, at)) in places.iter().enumerate() {
            for (other, other_at) in &places[..number] {
                let is_near = expression.distance(other, Chunk::new(64).unwrap()) == Some(0);
                let gap = (at.wrapping_sub(*other_at) as i64).unsigned_abs();
                pairs.equal += usize::from(expression == other);
                pairs.near += usize::from(is_near);
                pairs.wrong += usize::from(expression == other && gap != 0 || is_near && gap >= 64);
            }
        }
    }
    pairs
}

#[test]
fn expressions_agree_with_the_addresses_of_executions() {
    let versions = compared(Equality::Versions, |expression| *expression);
    let values = compared(Equality::Values, |expression| *expression);
    println!("by versions {versions:?}, by values {values:?}");
    assert_eq!((versions.wrong, values.wrong), (0, 0));
    assert!(versions.equal > 100 && values.equal > 2 * versions.equal);
    assert!(values.near > 2 * versions.near);
}

#[test]
fn expressions_without_versions_are_found_wrong() {
    let pairs = compared(Equality::Versions, |expression| {
        let mut changed = *expression;
        if let Template::Rri { base, .. } = &mut changed.template {
            base.version = 0;
        }
        changed
    });
    assert!(pairs.wrong > 0, "{pairs:?}");
}
