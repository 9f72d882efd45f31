//! What a block writes to the ring of its thread about its memory accesses, and how all of them
//! follow from that.
//!
//! A block writes its number, and then *slots* of 8 bytes with values of registers, or sums of two,
//! of which the addresses of its accesses are computed. What the block computes itself of values
//! that are in slots already has no slot: the reader of the trace computes it, too. So pushes and
//! pops of a block share one slot, as do the elements of an array that a path of blocks accesses
//! one after the other, and accesses to static memory have none. The slots of an instruction are
//! stored before it is executed.
//!
//! An instruction of whose elements a mask chooses some, or that has their addresses in a vector,
//! has slots with the mask and the parts of the vector before it.
//!
//! A string instruction with a repeat prefix has slots with its registers before and after it, from
//! which follows which elements it has accessed.
//!
//! The blocks of a superblock record as one: registers that an earlier block has stored have no
//! other slot. If its path is left, only the slots up to there are written. Accesses are chosen [in
//! each of its blocks by itself, or in all of them](Scope).
//!
//! Where a block is interrupted, the controller notes how many of its instructions were executed.
//! If the next one is a repeated string instruction, it stores the registers after it as they are
//! then.

mod chosen;
mod places;
mod registers;

pub use chosen::Chosen;
use hmtt_format::Direction;
use hmtt_format::access_trace as recording;
use hmtt_format::access_trace::{
    Access as Recording, BlockAccesses, Known, LaneOrder, MOST_SLOTS, Other, Part, Place, Repeated,
    SLOT_BYTES,
};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::block::{Block, MAX_INSTRUCTIONS, Operation};
use crate::layout::{PAGE_BYTES, ring};
use crate::memory_accesses::{Lanes, Order};
use crate::selection::{Access, Equality, Operand, Selector, path_accesses};
use chosen::scopes;
use places::{Addressed, Located, Places, register};
use registers::State;

/// Most bytes of slots for each byte of a block that is not dense.
const MOST_SLOT_BYTES: usize = 3;
/// Most slots of an instruction: those of a scatter, for the mask, 64 bytes of indexes, and two for
/// an address.
const MOST_OF_INSTRUCTION: usize = 11;
const _: () = assert!(MAX_INSTRUCTIONS * MOST_OF_INSTRUCTION <= MOST_SLOTS);
const _: () =
    assert!(12 * PAGE_BYTES + ((MOST_SLOTS + 2) * SLOT_BYTES) as u64 <= ring::SLACK_BYTES);

/// Which accesses are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How they are chosen among those of a scope.
    pub selector: Selector,
    /// Among which accesses they are chosen.
    pub scope: Scope,
    /// Which of them are equal.
    pub equality: Equality,
    /// Only those of this direction, if there is one.
    pub direction: Option<Direction>,
    /// Which blocks without chosen accesses write their numbers, too.
    pub silence: Silence,
}

/// Among which accesses some are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of a basic block, also where it is part of a superblock.
    Block,
    /// Those of a superblock, or of a basic block that is executed by itself. Of a superblock of
    /// functions of which not the same is recorded, they are those of its blocks one after the
    /// other of which the same is.
    Superblock,
}

/// Which blocks without chosen accesses write nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// None: all blocks write their numbers.
    Never,
    /// Superblocks, and hot blocks from which no superblock is built. Hot paths are found by the
    /// numbers of other blocks.
    Superblocks,
}

impl Choice {
    /// All accesses, and all blocks.
    pub const EVERY: Choice = Choice {
        selector: Selector::Every,
        scope: Scope::Block,
        equality: Equality::Values,
        direction: None,
        silence: Silence::Never,
    };
}

/// Which execution of a path it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// Any.
    #[default]
    Any,
    /// One that may be followed by repeated ones: it keeps values for them.
    First,
    /// One right behind the first or a repeated one: it takes the values that this has kept. The
    /// number is that of the first path as a whole.
    Repeated(u32),
}

/// A slot, and when it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the instruction in the block or path.
    pub operation: usize,
    /// Whether it is stored after the instruction.
    pub is_after: bool,
    /// What is stored.
    pub content: Content,
}

/// What is stored in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The sum of registers. The displacement is left out unless the sum is computed modulo 2^32.
    Sum(Operand),
    /// A mask register. Bits above the lowest ones have no meaning.
    Bits {
        /// The register.
        register: Register,
        /// How many of its bits are needed.
        count: u8,
    },
    /// A bit for each element of a vector: its highest one.
    Signs {
        /// The vector register.
        register: Register,
        /// Bytes of an element: 1, 4 or 8.
        bytes: u8,
    },
    /// A part of a vector register. All of its parts are in slots one behind the other.
    Vector {
        /// The register.
        register: Register,
        /// Index of the part, of 8 bytes.
        part: u8,
    },
}

/// What a block records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The slots, in the order in which they are stored.
    pub slots: Vec<Slot>,
    /// The accesses, and how they follow from the slots.
    pub accesses: BlockAccesses,
}

/// How the address of an access is found, before it is known how many slots there are.
enum Found {
    /// It is a constant.
    Static(u64),
    /// It follows from slots.
    Located(Located),
    /// It is one of the elements of a string.
    Elements(Place),
    /// It has elements, from an address on.
    Lanes(Option<Located>, recording::Lanes),
    Unknown,
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

/// Whether an instruction may have lanes.
fn has_mask(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Maskmovdqu, Maskmovq, Vmaskmovdqu, Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq,
    };
    instruction.has_op_mask()
        || instruction.is_vsib()
        || instruction.is_save_restore_instruction()
        || matches!(
            instruction.mnemonic(),
            Maskmovdqu | Maskmovq | Vmaskmovdqu | Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq
        )
}

impl Recorded {
    /// What blocks record of their accesses that are executed one after the other.
    pub fn new(blocks: &[Block], choice: &Choice) -> Self {
        Self::of_turn(blocks, choice, Turn::Any)
    }

    /// What a turn of a path records.
    pub fn of_turn(blocks: &[Block], choice: &Choice, turn: Turn) -> Self {
        let Turn::Repeated(first) = turn else {
            return Self::taking(blocks, choice, None, turn == Turn::First).0;
        };
        let kept = Self::taking(blocks, choice, None, true).1;
        let mut recorded = Self::taking(blocks, choice, Some(&kept), true).0;
        if recorded.accesses.repeated.taken > 0 {
            recorded.accesses.repeated.first = first;
        }
        recorded
    }

    /// How many slots a repeated execution of a path has less than any other one.
    pub fn saved_by_repeating(blocks: &[Block], choice: &Choice) -> usize {
        let (first, kept) = Self::taking(blocks, choice, None, true);
        let repeated = Self::taking(blocks, choice, Some(&kept), true).0;
        let is_possible = repeated.accesses.kept.len() == kept.len()
            && first.accesses.kept.len() == kept.len()
            && [&first, &repeated].iter().all(|one| one.accesses.is_possible());
        let saved = Self::new(blocks, choice).slots.len().saturating_sub(repeated.slots.len());
        if is_possible { saved } else { 0 }
    }

    /// What a path records that takes the values of some registers at its start, and stores the
    /// others that it needs there if it keeps values. Also returns of which registers it does.
    fn taking(
        blocks: &[Block],
        choice: &Choice,
        taken: Option<&[usize]>,
        keeps: bool,
    ) -> (Self, Vec<usize>) {
        let found = path_accesses(blocks, Equality::Values);
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        let (mut from, mut before) = (0, 0);
        for scope in scopes(blocks, choice.scope) {
            let end = before + scope.iter().map(|block| block.operations.len()).sum::<usize>();
            let to = found.partition_point(|access| access.operation < end);
            let part = Chosen::of(scope, &found[from..to], choice);
            let first = chosen.len() as u16;
            others.extend(part.others().map(|(at, known)| {
                let known = match known {
                    Known::Address(index) => Known::Address(first + index),
                    Known::Chunk(index) => Known::Chunk(first + index),
                    Known::Nothing => Known::Nothing,
                };
                Other { operation: found[from + at].operation as u16, known }
            }));
            chosen.extend(part.places().map(|at| found[from + at]));
            (from, before) = (to, end);
        }
        let found = chosen;
        let operations: Vec<&Operation> =
            blocks.iter().flat_map(|block| &block.operations).collect();
        let mut recorded = Recorded::default();
        recorded.accesses.start = blocks.first().map_or(0, |block| block.start.0);
        recorded.accesses.instructions = operations.len() as u16;
        recorded.accesses.others = others;
        let (state, addresses) = addresses(&operations, &found);
        let values = addresses.iter().flatten().map(|one| &one.value);
        let mut places = Places::new(&state.nodes, values);
        let at_start = if keeps { places.needed_at_start() } else { Vec::new() };
        let is_taken = |register: &usize| taken.is_some_and(|taken| taken.contains(register));
        for register in &at_start {
            match is_taken(register) {
                true => places.take(*register),
                false => places.store_at_start(*register),
            }
        }
        let mut all = Vec::with_capacity(found.len());
        let mut from = 0;
        while let Some(first) = found.get(from) {
            let instruction = &operations[first.operation].instruction;
            let same = found[from..].iter().take_while(|one| one.operation == first.operation);
            let to = from + same.count();
            let is_narrow = found[from..to].iter().any(|access| access.operand.is_narrow);
            if is_repeated(instruction) && !is_narrow {
                all.extend(elements(&found[from..to], &mut places).map(Found::Elements));
            } else {
                let both = found[from..to].iter().zip(&addresses[from..to]);
                all.extend(both.map(|(access, address)| located(access, address, &mut places)));
            }
            from = to;
        }
        for (access, found) in found.iter().zip(all) {
            let place = match found {
                Found::Static(address) => Place::Static(address),
                Found::Located(located) => {
                    let (slot, plus) = places.place(located);
                    Place::Slot { slot, plus }
                }
                Found::Elements(place) => place,
                Found::Lanes(located, lanes) => match located.map(|one| places.place(one)) {
                    Some((slot, plus)) => {
                        Place::Lanes(recording::Lanes { base: Some(slot), plus, ..lanes })
                    }
                    None => Place::Lanes(lanes),
                },
                Found::Unknown => Place::Unknown,
            };
            recorded.push(operations[access.operation], access, place);
        }
        let candidates = taken.map_or(at_start, <[usize]>::to_vec).into_iter();
        let keep = |register: usize| Some((register, places.keep(state.values[register])?));
        let (kept, values): (Vec<_>, Vec<_>) = candidates.filter_map(keep).unzip();
        recorded.accesses.kept = values.into_iter().map(|one| places.kept(one)).collect();
        recorded.accesses.repeated = Repeated { first: 0, taken: places.taken };
        recorded.accesses.derived = places.derived();
        recorded.slots = places.slots;
        recorded.accesses.slots = recorded.slots.len() as u16;
        recorded.accesses.count_represented();
        (recorded, kept)
    }

    /// What a path records. `numbers`: those of its blocks.
    pub fn of_path(blocks: &[Block], numbers: &[u32], choice: &Choice, turn: Turn) -> Self {
        let mut recorded = Recorded::of_turn(blocks, choice, turn);
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
        // Others have at most one slot in each instruction: what is addressed by two registers
        // without an index was added up by an instruction before it.
        let has_two = |instruction: &Instruction| {
            let is_push =
                instruction.is_stack_instruction() && instruction.op0_kind() == OpKind::Memory;
            let has_index = instruction.memory_index() != Register::None;
            instruction.is_string_instruction() || is_push || has_index || has_mask(instruction)
        };
        let may_be = block.operations.len() * SLOT_BYTES > MOST_SLOT_BYTES * block.bytes.len()
            || block.operations.iter().any(|one| has_two(&one.instruction));
        may_be && Recorded::new(std::slice::from_ref(block), choice).is_dense(block)
    }

    /// Whether there are so many slots that a page of such blocks could write more than fits in the
    /// slack of a chunk. What follows such a block is entered where the ring is checked.
    ///
    /// Between two checks a thread executes code of one page, upwards: less than 12 bytes for each
    /// byte of code, if each block writes its number and a note in 16 bytes, has at least two
    /// bytes, and is not dense; a jump back within its block repeats less than that.
    pub fn is_dense(&self, block: &Block) -> bool {
        self.accesses.slot_bytes() > MOST_SLOT_BYTES * block.bytes.len()
    }

    fn push(&mut self, instruction: &Operation, access: &Access, place: Place) {
        let Access { operation, direction, size, conditional, .. } = *access;
        let (pc, operation) = (instruction.instruction.ip(), operation as u16);
        let is_elements = matches!(place, Place::Elements { .. });
        let adds_fs = access.operand.is_fs && (is_elements || access.is_located);
        // All elements that are counted were accessed.
        let conditional = match place {
            Place::Unknown => conditional || access.lanes.is_some(),
            _ => conditional && !is_elements,
        };
        let represents = 1;
        let one =
            Recording { pc, operation, direction, size, conditional, adds_fs, represents, place };
        self.accesses.accesses.push(one);
    }
}

/// The addresses that instructions name for accesses, and the state after all of them. Those of
/// sets are left out, and those that are not known.
fn addresses(operations: &[&Operation], found: &[Access]) -> (State, Vec<Option<Addressed>>) {
    let mut state = State::default();
    let mut all = Vec::with_capacity(found.len());
    let mut rest = found.iter().peekable();
    for (index, operation) in operations.iter().enumerate() {
        while let Some(access) = rest.next_if(|access| access.operation == index) {
            // `xlat` adds a part of a register.
            let is_known = access.is_located && !access.operand.index.is_gpr8();
            let address = is_known.then(|| Addressed::new(index, access.operand, &mut state));
            all.push(address.flatten());
        }
        state.execute(operation);
    }
    (state, all)
}

/// How the address of an access is found.
fn located(access: &Access, address: &Option<Addressed>, places: &mut Places<'_>) -> Found {
    let Some(addressed) = address else { return Found::Unknown };
    let located = addressed.value.node.map(|node| places.locate(addressed, node));
    match (access.lanes, located) {
        (Some(lanes @ Lanes { order: Order::Compacted { component }, .. }), Some(located)) => {
            let lanes = described(access, &lanes, 0, places);
            match lanes
                .mask
                .and_then(|flags| places.compacted(access.operation, located, flags, component))
            {
                Some(located) => Found::Lanes(Some(located), lanes),
                None => Found::Unknown,
            }
        }
        (Some(Lanes { order: Order::Compacted { .. }, .. }), None) => Found::Unknown,
        (Some(lanes), located) => {
            let constant = if located.is_some() { 0 } else { addressed.value.plus };
            Found::Lanes(located, described(access, &lanes, constant, places))
        }
        (None, Some(located)) => Found::Located(located),
        (None, None) => Found::Static(addressed.value.plus as u64),
    }
}

/// Adds the slots of lanes, and describes them. `plus`: what is added to the address of the first
/// element.
fn described(
    access: &Access,
    lanes: &Lanes,
    plus: i64,
    places: &mut Places<'_>,
) -> recording::Lanes {
    let (mask, first_bit) = places.mask(access.operation, lanes);
    let Operand { index, scale, is_narrow, .. } = access.operand;
    let order = match lanes.order {
        Order::Apart | Order::Compacted { .. } => LaneOrder::Apart,
        Order::Packed => LaneOrder::Packed,
        Order::Indexed { bytes } => {
            let slot = places.vector(access.operation, index);
            LaneOrder::Indexed { slot, bytes, scale: scale.max(1), is_narrow }
        }
    };
    let Lanes { lanes, elements, .. } = *lanes;
    recording::Lanes { base: None, plus, mask, first_bit, lanes, elements, order }
}

/// Adds the slots of a repeated string instruction, and returns where the elements of its accesses
/// are.
fn elements(accesses: &[Access], places: &mut Places<'_>) -> impl Iterator<Item = Place> + use<> {
    let mut slot =
        |is_after, of: &Access, base| places.slot(of.operation, is_after, register(base));
    let first = &accesses[0];
    let before = slot(false, first, Register::RCX);
    let slots: Vec<u16> =
        accesses.iter().map(|access| slot(false, access, access.operand.base)).collect();
    let after = slot(true, first, Register::RCX);
    let moved = slot(true, first, first.operand.base);
    let (left, pointer) = ([before, after], [slots[0], moved]);
    slots.into_iter().map(move |first| Place::Elements { left, first, pointer })
}
