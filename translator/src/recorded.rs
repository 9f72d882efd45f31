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
//! The blocks of a superblock record as one: registers that an earlier block has stored have no other slot. If its path is
//! left, only the slots up to there are written.
//!
//! Where a block is interrupted, the controller notes how many of its instructions were executed. If the next one is a
//! repeated string instruction, it stores the registers after it as they are then.

use std::collections::HashMap;

use hmtt_format::Direction;
use hmtt_format::access_trace::{Access as Recording, BlockAccesses, Part, Place, SLOT_BYTES};
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use crate::block::{Block, MAX_INSTRUCTIONS, Operation};
use crate::layout::{PAGE_BYTES, ring};
use crate::selection::{
    self, Access, Equality, Expression, Index, Operand, Selection, Selector, Template, Versioned,
    path_accesses,
};

/// Most bytes of slots for each byte of a block that is not dense.
const MOST_SLOT_BYTES: usize = 3;
/// Most slots of a path of several blocks.
pub const MOST_PATH_SLOTS: usize = 1024;
const _: () = assert!(MAX_INSTRUCTIONS * 5 <= MOST_PATH_SLOTS);
const _: () =
    assert!(12 * PAGE_BYTES + ((MOST_PATH_SLOTS + 2) * SLOT_BYTES) as u64 <= ring::SLACK_BYTES);

/// Which accesses are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How they are chosen among those of a block.
    pub selector: Selector,
    /// Which of them are equal.
    pub equality: Equality,
    /// Only those of this direction, if there is one.
    pub direction: Option<Direction>,
    /// Which blocks without chosen accesses write their numbers, too.
    pub silence: Silence,
}

/// Which blocks without chosen accesses write nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// None: all blocks write their numbers.
    Never,
    /// Superblocks. Hot paths are found by the numbers of other blocks.
    Superblocks,
}

impl Choice {
    /// All accesses, and all blocks.
    pub const EVERY: Choice = Choice {
        selector: Selector::Every,
        equality: Equality::Values,
        direction: None,
        silence: Silence::Never,
    };
}

/// What is stored in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the instruction in the block or path.
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
    if !(has_prefix && instruction.is_string_instruction()) {
        return false;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_registers()
        .iter()
        .any(|used| used.register() == Register::RCX && !matches!(used.access(), OpAccess::Read))
}

/// What is chosen of the accesses of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Places in the block of the accesses that are meant: those of the wanted direction.
    pub meant: Vec<usize>,
    /// What is chosen of them, by index in [`meant`](Self::meant).
    pub selection: Selection,
}

impl Chosen {
    /// Chooses accesses of a block.
    pub fn of(block: &Block, accesses: &[Access], choice: &Choice) -> Self {
        let is_meant = |one: &Access| {
            block.is_recorded && choice.direction.is_none_or(|it| it == one.direction)
        };
        let meant: Vec<usize> =
            (0..accesses.len()).filter(|place| is_meant(&accesses[*place])).collect();
        let own: Vec<Access> = match (choice.selector, choice.equality) {
            // Classes are those of the block alone, whatever is known from blocks before it.
            (Selector::Representatives { .. }, equality) => {
                let own = selection::accesses(block, equality);
                meant.iter().map(|place| own[*place]).collect()
            }
            (Selector::Every, _) => meant.iter().map(|place| accesses[*place]).collect(),
        };
        Chosen { selection: choice.selector.select(&own), meant }
    }

    /// Places of the chosen accesses in the block, in program order, and how many each represents.
    pub fn places(&self) -> impl Iterator<Item = (usize, u16)> {
        let represents = |one: &usize| self.selection.represents(*one) as u16;
        self.selection.chosen.iter().map(move |one| (self.meant[*one], represents(one)))
    }
}

impl Recorded {
    /// What blocks record of their accesses that are executed one after the other.
    pub fn new(blocks: &[Block], choice: &Choice) -> Self {
        let found = path_accesses(blocks, Equality::Values);
        let mut chosen = Vec::new();
        let (mut all, mut near, mut from, mut before) = (0, 0, 0, 0);
        for block in blocks {
            let end = before + block.operations.len();
            let to = found.partition_point(|access| access.operation < end);
            let part = Chosen::of(block, &found[from..to], choice);
            chosen.extend(part.places().map(|(at, represents)| (from + at, represents)));
            let accuracy = part.selection.accuracy();
            (all, near) = (all + accuracy.accesses, near + accuracy.near);
            (from, before) = (to, end);
        }
        let represents: Vec<u16> = chosen.iter().map(|(_, represents)| *represents).collect();
        let found: Vec<Access> = chosen.iter().map(|(access, _)| found[*access]).collect();
        let operations: Vec<&Operation> =
            blocks.iter().flat_map(|block| &block.operations).collect();
        let mut recorded = Recorded::default();
        recorded.accesses.start = blocks.first().map_or(0, |block| block.start.0);
        recorded.accesses.instructions = operations.len() as u16;
        [recorded.accesses.all, recorded.accesses.near] =
            [all, near].map(|sum| sum.min(u16::MAX.into()) as u16);
        // Slot and constant of the first access with these registers.
        let mut known: HashMap<Registers, (u16, i64)> = HashMap::new();
        let mut from = 0;
        while let Some(first) = found.get(from) {
            let operation = operations[first.operation];
            let same = found[from..].iter().take_while(|one| one.operation == first.operation);
            let all = &found[from..from + same.count()];
            let is_narrow = all.iter().any(|access| access.operand.is_narrow);
            if is_repeated(&operation.instruction) && !is_narrow {
                recorded.add_elements(operation, all);
            } else {
                all.iter().for_each(|access| recorded.add(operation, access, &mut known));
            }
            from += all.len();
        }
        for (access, represents) in recorded.accesses.accesses.iter_mut().zip(represents) {
            access.represents = represents;
        }
        recorded
    }

    /// What a path records. `numbers`: those of its blocks.
    pub fn of_path(blocks: &[Block], numbers: &[u32], choice: &Choice) -> Self {
        let mut recorded = Recorded::new(blocks, choice);
        let mut instructions = 0;
        for (block, number) in blocks.iter().zip(numbers) {
            instructions += block.operations.len();
            let slots = recorded.slots.partition_point(|slot| slot.operation < instructions);
            recorded.accesses.parts.push(Part {
                block: *number,
                instructions: instructions as u16,
                slots: slots as u16,
            });
        }
        recorded
    }

    /// Whether a block records so much that it [is dense](Self::is_dense).
    pub fn makes_dense(block: &Block, choice: &Choice) -> bool {
        // Others have at most one slot in each instruction.
        let has_two = |instruction: &Instruction| {
            let is_push =
                instruction.is_stack_instruction() && instruction.op0_kind() == OpKind::Memory;
            instruction.is_string_instruction() || is_push
        };
        let may_be = block.operations.len() * SLOT_BYTES > MOST_SLOT_BYTES * block.bytes.len()
            || block.operations.iter().any(|one| has_two(&one.instruction));
        may_be && Recorded::new(std::slice::from_ref(block), choice).is_dense(block)
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

    fn add(
        &mut self,
        instruction: &Operation,
        access: &Access,
        known: &mut HashMap<Registers, (u16, i64)>,
    ) {
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
        self.push(instruction, access, place, expression.is_some_and(|it| it.segment.is_some()));
    }

    /// Adds the accesses of a repeated string instruction.
    fn add_elements(&mut self, instruction: &Operation, accesses: &[Access]) {
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
            self.push(instruction, &certain, place, access.operand.is_fs);
        }
    }

    fn push(&mut self, instruction: &Operation, access: &Access, place: Place, adds_fs: bool) {
        let Access { operation, direction, size, conditional, .. } = *access;
        let (pc, operation) = (instruction.instruction.ip(), operation as u16);
        let represents = 1;
        let one =
            Recording { pc, operation, direction, size, conditional, adds_fs, represents, place };
        self.accesses.accesses.push(one);
    }
}
