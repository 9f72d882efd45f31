//! What a block writes to the ring of its thread about its memory accesses, and how all of them follow from that.
//!
//! A block writes its number, and then a *slot* of 8 bytes for each sum of registers that addresses its accesses and is not
//! known from an earlier slot. The address of an access is the value of a slot plus a constant, or a constant alone. So
//! pushes and pops of a block share one slot, and accesses to static memory have none. The slots of an instruction are
//! stored before it is executed.
//!
//! A string instruction with a repeat prefix has slots with its registers before and after it, from which follows which
//! elements it has accessed.
//!
//! Where a block is interrupted, the controller notes how many of its instructions were executed. If the next one is a
//! repeated string instruction, it stores the registers after it as they are then.

use std::collections::HashMap;

use hmtt_format::access_trace::{Access as Recording, BlockAccesses, Place, SLOT_BYTES};
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};

use crate::block::{Block, MAX_INSTRUCTIONS};
use crate::layout::{PAGE_BYTES, ring};
use crate::selection::{
    Access, Equality, Expression, Index, Operand, Template, Versioned, accesses,
};

/// Most bytes of slots for each byte of a block that is not dense.
const MOST_SLOT_BYTES: usize = 3;
const _: () =
    assert!(12 * PAGE_BYTES + (MAX_INSTRUCTIONS * 5 * SLOT_BYTES) as u64 <= ring::SLACK_BYTES);

/// What is stored in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the instruction in the block.
    pub operation: usize,
    /// Whether it is stored after the instruction.
    pub is_after: bool,
    /// The registers whose sum is stored. The displacement is left out unless the sum is computed modulo 2^32.
    pub sum: Operand,
}

/// What a block records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The slots, in the order in which they are stored.
    pub slots: Vec<Slot>,
    /// The accesses, and how they follow from the slots.
    pub accesses: BlockAccesses,
}

/// The registers of an expression without its constant, which two accesses may have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Registers {
    base: Option<Versioned>,
    index: Option<Index>,
}

/// The registers of an expression, and the constant that is added to them.
fn parts(expression: &Expression) -> (Registers, i64) {
    match expression.template {
        Template::Rri { base, index, displacement } => {
            (Registers { base: Some(base), index }, displacement)
        }
        Template::Irr { base, index, displacement } => {
            (Registers { base: displacement, index }, base as i64)
        }
    }
}

/// Whether an instruction is a string instruction that is repeated as often as `rcx` says.
fn is_repeated(instruction: &Instruction) -> bool {
    let has_prefix = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let counts = info
        .used_registers()
        .iter()
        .any(|used| used.register() == Register::RCX && !matches!(used.access(), OpAccess::Read));
    has_prefix && instruction.is_string_instruction() && counts
}

impl Recorded {
    /// What a block records of its accesses.
    pub fn new(block: &Block) -> Self {
        let found = accesses(block, Equality::Values);
        let mut recorded = Recorded::default();
        recorded.accesses.start = block.start.0;
        recorded.accesses.instructions = block.operations.len() as u16;
        // Slot and constant of the first access with these registers.
        let mut known: HashMap<Registers, (u16, i64)> = HashMap::new();
        let mut from = 0;
        while let Some(first) = found.get(from) {
            let operation = &block.operations[first.operation];
            let same = found[from..].iter().take_while(|one| one.operation == first.operation);
            let all = &found[from..from + same.count()];
            let is_narrow = all.iter().any(|access| access.operand.is_narrow);
            if is_repeated(&operation.instruction) && !is_narrow {
                recorded.add_elements(block, all);
            } else {
                all.iter().for_each(|access| recorded.add(block, access, &mut known));
            }
            from += all.len();
        }
        recorded
    }

    /// Whether there are so many slots that a page of such blocks could write more than fits in the slack of a chunk. What
    /// follows such a block is entered where the ring is checked.
    ///
    /// Between two checks a thread executes code of one page, upwards: less than 12 bytes for each byte of code, if each
    /// block writes its number and a note in 16 bytes, has at least two bytes, and is not dense; a jump back within its
    /// block repeats less than that.
    pub fn is_dense(&self, block: &Block) -> bool {
        self.accesses.slot_bytes() > MOST_SLOT_BYTES * block.bytes.len()
    }

    fn slot(&mut self, operation: usize, is_after: bool, sum: Operand) -> u16 {
        self.slots.push(Slot { operation, is_after, sum });
        self.accesses.slots = self.slots.len() as u16;
        self.accesses.slots - 1
    }

    fn add(&mut self, block: &Block, access: &Access, known: &mut HashMap<Registers, (u16, i64)>) {
        let Access { operation, operand, .. } = *access;
        let expression = access.address.expression();
        let place = match expression.map(parts) {
            None => Place::Unknown,
            // The base of `fs` is known from where the thread has entered the cache.
            Some(_) if expression.and_then(|it| it.segment).is_some_and(|fs| fs.version > 0) => {
                Place::Unknown
            }
            // `xlat` adds a part of a register.
            Some(_) if operand.index.is_gpr8() => Place::Unknown,
            Some((Registers { base: None, index: None }, constant)) => {
                Place::Static(constant as u64)
            }
            // The sum is not that of whole registers.
            Some(_) if operand.is_narrow => {
                Place::Slot { slot: self.slot(operation, false, operand), plus: 0 }
            }
            Some((registers, constant)) => {
                let (slot, first) = *known.entry(registers).or_insert_with(|| {
                    let sum = Operand { displacement: 0, ..operand };
                    let slot = self.slot(operation, false, sum);
                    (slot, constant.wrapping_sub(operand.displacement))
                });
                Place::Slot { slot, plus: constant.wrapping_sub(first) }
            }
        };
        self.push(block, access, place, expression.is_some_and(|it| it.segment.is_some()));
    }

    /// Adds the accesses of a repeated string instruction.
    fn add_elements(&mut self, block: &Block, accesses: &[Access]) {
        let Some(operation) = accesses.first().map(|access| access.operation) else { return };
        let register = |base| Operand {
            base,
            index: Register::None,
            scale: 1,
            displacement: 0,
            is_narrow: false,
            is_fs: false,
        };
        let before = self.slot(operation, false, register(Register::RCX));
        let bases: Vec<Register> = accesses.iter().map(|access| access.operand.base).collect();
        let slots: Vec<u16> =
            bases.iter().map(|base| self.slot(operation, false, register(*base))).collect();
        let after = self.slot(operation, true, register(Register::RCX));
        let moved = self.slot(operation, true, register(bases[0]));
        for (access, first) in accesses.iter().zip(&slots) {
            let (left, pointer) = ([before, after], [slots[0], moved]);
            let place = Place::Elements { left, first: *first, pointer };
            // All elements that are counted were accessed.
            let certain = Access { conditional: false, ..*access };
            self.push(block, &certain, place, access.operand.is_fs);
        }
    }

    fn push(&mut self, block: &Block, access: &Access, place: Place, adds_fs: bool) {
        let Access { operation, direction, size, conditional, .. } = *access;
        let ip = block.operations[operation].instruction.ip();
        let offset = ip.wrapping_sub(block.start.0) as u16;
        let operation = operation as u16;
        let one = Recording { operation, offset, direction, size, conditional, adds_fs, place };
        self.accesses.accesses.push(one);
    }
}
