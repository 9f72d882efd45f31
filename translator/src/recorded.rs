//! Decides what a block writes to its thread's ring about its memory accesses, and describes how a
//! reader computes the addresses of all accesses from it.
//!
//! A block writes its number, and then *slots* of 8 bytes. A slot has the value of a register, or
//! the sum of two registers. The addresses of the block's accesses are computed from the slots.
//! What the block itself computes from values that are already in slots needs no slot: the reader
//! of the trace repeats the computation. So pushes and pops of a block share one slot, as do the
//! elements of an array that a path of blocks accesses one after the other. Accesses to static
//! memory need no slot. The slots of an instruction are stored before it is executed.
//!
//! ```text
//! instruction              slot                  address of the access
//! push rbx                 0: rsp                slot 0 - 8
//! mov  rax, [rdi + 8*rcx]  1: rdi + 8*rcx        slot 1
//! add  rcx, 1
//! mov  rdx, [rdi + 8*rcx]                        slot 1 + 8
//! mov  rsi, [rip + 0x100]                        a constant
//! ```
//!
//! An instruction with a mask, or with a vector of addresses, has slots with the mask and with the
//! parts of the vector, which are stored before it.
//!
//! A string instruction with a repeat prefix has slots with its registers before and after it. The
//! elements that it has accessed follow from them.
//!
//! The blocks of a superblock record as one: a register that an earlier block has stored gets no
//! other slot. If the thread leaves the path of the superblock, only the slots up to there are
//! written. Accesses are chosen [in each of its blocks by itself, or in all of them](Scope).
//!
//! Where a block is interrupted, the controller notes how many of its instructions were executed.
//! If the next instruction is a repeated string instruction, it may be interrupted between two
//! elements. The controller then stores the current values of its registers in the slots that the
//! block would have stored after it.

mod choice;
mod chosen;
mod places;
mod registers;

pub use choice::{Choice, Scope, Silence, Turn};
pub use chosen::Chosen;
use hmtt_files::access_trace as recording;
use hmtt_files::access_trace::{
    Access as Recording, BlockAccesses, Known, LaneOrder, MOST_SLOTS, Other, Part, Place, Repeated,
    SLOT_BYTES,
};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::block::{Block, MAX_INSTRUCTIONS, Operation};
use crate::layout::{PAGE_BYTES, ring};
use crate::memory_accesses::{Lanes, Order};
use crate::selection::{Access, Equality, Operand, path_accesses};
use chosen::scopes;
use places::{Addressed, Located, Places, register};
use registers::State;

/// Maximum number of bytes of slots for each byte of code, in a block that is not
/// [dense](Recorded::is_dense).
const MOST_SLOT_BYTES: usize = 3;
/// Maximum number of slots of an instruction. A scatter has the most: one for the mask, eight for
/// 64 bytes of indexes, and two for an address.
const MOST_OF_INSTRUCTION: usize = 11;
const _: () = assert!(MAX_INSTRUCTIONS * MOST_OF_INSTRUCTION <= MOST_SLOTS);
const _: () =
    assert!(12 * PAGE_BYTES + ((MOST_SLOTS + 2) * SLOT_BYTES) as u64 <= ring::SLACK_BYTES);

/// A slot, with the time at which it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the instruction in the block or path.
    pub operation: usize,
    /// Whether it is stored after the instruction instead of before it.
    pub is_after: bool,
    /// The value that is stored.
    pub content: Content,
}

/// The value that a slot gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The sum of a base and an index. The displacement is 0 unless the sum is computed modulo
    /// 2^32.
    Sum(Operand),
    /// A mask register. Bits above the `count` lowest ones have no meaning.
    Bits {
        /// The register.
        register: Register,
        /// Number of bits that are needed, from the lowest one on.
        count: u8,
    },
    /// The highest bit of each element of a vector, as one bit per element.
    Signs {
        /// The vector register.
        register: Register,
        /// Bytes of an element: 1, 4 or 8.
        bytes: u8,
    },
    /// 8 bytes of a vector register. All of its parts are in successive slots.
    Vector {
        /// The register.
        register: Register,
        /// Index of the part, from the lowest 8 bytes on.
        part: u8,
    },
}

/// The slots of a block or path, and how its accesses follow from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The slots, in the order in which they are stored.
    pub slots: Vec<Slot>,
    /// The description for readers: the accesses, and how each follows from the slots.
    pub accesses: BlockAccesses,
}

/// How the address of an access is found, while slots are still added.
enum Found {
    /// The address is a constant.
    Static(u64),
    /// The address follows from slots.
    Located(Located),
    /// The access has one element for each repetition of a string instruction.
    Elements(Place),
    /// The access has elements from an address on. `None`: the address of the first element is a
    /// constant, in the description of the lanes.
    Lanes(Option<Located>, recording::Lanes),
    Unknown,
}

/// Whether an instruction is a string instruction that is repeated as often as `rcx` says: `rep
/// movsb` is, `movsb` is not.
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

/// Whether an instruction may access single elements, chosen by a mask or by addresses in a vector.
/// May be true for one that accesses no memory.
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
    /// Returns what blocks record if they are executed one after the other, in a path that keeps
    /// and takes no values.
    pub fn new(blocks: &[Block], choice: &Choice) -> Self {
        Self::of_turn(blocks, choice, Turn::Any)
    }

    /// Returns what an execution of a path records.
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

    /// Returns how many fewer slots a repeated execution of a path has than an execution by itself.
    /// 0 if the path cannot be repeated: not all registers that it needs are known at its end, or
    /// the description would be [too large](BlockAccesses::is_possible).
    pub fn saved_by_repeating(blocks: &[Block], choice: &Choice) -> usize {
        let (first, kept) = Self::taking(blocks, choice, None, true);
        let repeated = Self::taking(blocks, choice, Some(&kept), true).0;
        let is_possible = repeated.accesses.kept.len() == kept.len()
            && first.accesses.kept.len() == kept.len()
            && [&first, &repeated].iter().all(|one| one.accesses.is_possible());
        let saved = Self::new(blocks, choice).slots.len().saturating_sub(repeated.slots.len());
        if is_possible { saved } else { 0 }
    }

    /// Returns what a path records. `taken_registers`: numbers of the registers whose values at the
    /// start of the path are taken from the execution before it. `keeps`: whether the path keeps
    /// values. It then stores at its start the other registers that its addresses are computed
    /// from. Also returns the numbers of the registers whose values at the end of the path are
    /// kept.
    fn taking(
        blocks: &[Block],
        choice: &Choice,
        taken_registers: Option<&[usize]>,
        keeps: bool,
    ) -> (Self, Vec<usize>) {
        let accesses = path_accesses(blocks, Equality::Values);
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        let (mut from, mut before) = (0, 0);
        for scope in scopes(blocks, choice.scope) {
            let end = before + scope.iter().map(|block| block.operations.len()).sum::<usize>();
            let to = accesses.partition_point(|access| access.operation < end);
            let part = Chosen::of(scope, &accesses[from..to], choice);
            let first = chosen.len() as u16;
            others.extend(part.others().map(|(at, known)| {
                let known = match known {
                    Known::Address(index) => Known::Address(first + index),
                    Known::Chunk(index) => Known::Chunk(first + index),
                    Known::Nothing => Known::Nothing,
                };
                Other { operation: accesses[from + at].operation as u16, known }
            }));
            chosen.extend(part.places().map(|at| accesses[from + at]));
            (from, before) = (to, end);
        }
        let accesses = chosen;
        let operations: Vec<&Operation> =
            blocks.iter().flat_map(|block| &block.operations).collect();
        let mut recorded = Recorded::default();
        recorded.accesses.start = blocks.first().map_or(0, |block| block.start.0);
        recorded.accesses.instructions = operations.len() as u16;
        recorded.accesses.others = others;
        let (state, addresses) = addresses(&operations, &accesses);
        let values = addresses.iter().flatten().map(|one| &one.value);
        let mut places = Places::new(&state.nodes, values);
        let at_start = if keeps { places.needed_at_start() } else { Vec::new() };
        let is_taken =
            |register: &usize| taken_registers.is_some_and(|taken| taken.contains(register));
        for register in &at_start {
            if is_taken(register) {
                places.take(*register)
            } else {
                places.store_at_start(*register)
            }
        }
        let mut locations = Vec::with_capacity(accesses.len());
        let mut from = 0;
        while let Some(first) = accesses.get(from) {
            let instruction = &operations[first.operation].instruction;
            let same =
                accesses[from..].iter().take_while(|access| access.operation == first.operation);
            let to = from + same.count();
            let is_narrow = accesses[from..to].iter().any(|access| access.operand.is_narrow);
            if is_repeated(instruction) && !is_narrow {
                locations.extend(elements(&accesses[from..to], &mut places).map(Found::Elements));
            } else {
                let both = accesses[from..to].iter().zip(&addresses[from..to]);
                locations
                    .extend(both.map(|(access, address)| located(access, address, &mut places)));
            }
            from = to;
        }
        for (access, location) in accesses.iter().zip(locations) {
            let place = match location {
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
        let candidates = taken_registers.map_or(at_start, <[usize]>::to_vec).into_iter();
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

    /// Returns what a path records, with a [part](BlockAccesses::parts) for each block. `numbers`:
    /// the numbers of its blocks.
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
        // Any other instruction has at most one slot on average. An address without an index may be
        // the sum of two stored registers. Then an earlier instruction has computed the sum, and
        // that instruction has no slot.
        let has_two = |instruction: &Instruction| {
            let is_push =
                instruction.is_stack_instruction() && instruction.op0_kind() == OpKind::Memory;
            let has_index = instruction.memory_index() != Register::None;
            instruction.is_string_instruction() || is_push || has_index || has_mask(instruction)
        };
        let may_be = block.operations.len() * SLOT_BYTES > MOST_SLOT_BYTES * block.bytes.len()
            || block.operations.iter().any(|operation| has_two(&operation.instruction));
        may_be && Recorded::new(std::slice::from_ref(block), choice).is_dense(block)
    }

    /// Whether the block has so many slots that a page of such blocks could write more than fits in
    /// the slack of a chunk. The block after a dense block is entered at its check of the ring.
    ///
    /// Between two checks a thread executes code of one page, at ascending addresses. A block has
    /// at least two bytes of code. Besides its slots it writes at most 16 bytes, its number and a
    /// note: 8 bytes for each byte of code. Its slots add at most 3 if it is not dense. So a page
    /// writes less than 12 bytes for each byte of code. If a block jumps back into itself, the
    /// repeated part also writes less than this.
    pub fn is_dense(&self, block: &Block) -> bool {
        self.accesses.slot_bytes() > MOST_SLOT_BYTES * block.bytes.len()
    }

    fn push(&mut self, instruction: &Operation, access: &Access, place: Place) {
        let Access { operation, direction, size, conditional, .. } = *access;
        let (pc, operation) = (instruction.instruction.ip(), operation as u16);
        let is_elements = matches!(place, Place::Elements { .. });
        let adds_fs = access.operand.is_fs && (is_elements || access.is_located);
        // The elements are counted from registers after the instruction, so each was accessed.
        let conditional = match place {
            Place::Unknown => conditional || access.lanes.is_some(),
            _ => conditional && !is_elements,
        };
        let represents = 1;
        let record =
            Recording { pc, operation, direction, size, conditional, adds_fs, represents, place };
        self.accesses.accesses.push(record);
    }
}

/// Returns the address of each access, and the state after all instructions. An address is `None`
/// if the operand does not say where the access is, or if the operand's value is not known.
fn addresses(operations: &[&Operation], accesses: &[Access]) -> (State, Vec<Option<Addressed>>) {
    let mut state = State::default();
    let mut addresses = Vec::with_capacity(accesses.len());
    let mut rest = accesses.iter().peekable();
    for (index, operation) in operations.iter().enumerate() {
        while let Some(access) = rest.next_if(|access| access.operation == index) {
            // The index of `xlat` is a part of a register, `al`.
            let is_known = access.is_located && !access.operand.index.is_gpr8();
            let address = is_known.then(|| Addressed::new(index, access.operand, &mut state));
            addresses.push(address.flatten());
        }
        state.execute(operation);
    }
    (state, addresses)
}

/// Finds the address of an access, and adds the slots that it needs.
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

/// Adds the slots of an access with lanes, and describes the lanes. `plus`: constant that is added
/// to the address of the first element.
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

/// Adds the slots of a repeated string instruction, and returns where the elements of each access
/// are.
///
/// Slots of `rep movsb`, which reads at `rsi` and writes at `rdi`: `rcx`, `rsi` and `rdi` before
/// it, `rcx` and `rsi` after it.
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
