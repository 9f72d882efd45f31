//! Generates the code of a block, or of a path of blocks: a superblock.
//!
//! ```text
//! prefix    only of a landing: continues here if the target in rcx is this block, else at the next
//!           landing with the same entry of the lookup table
//! checked   with a ring: continues at the full stub if the chunk is full
//! main      with a ring: writes the number of the block; then the instructions, and the end
//! cold      what is executed rarely: requests of unlinked exits, constants
//! ```
//!
//! The code of a block has two forms, and each is generated when it is needed. The *main form* is
//! entered by direct transfers. A *landing* is entered through the lookup table. At its start the
//! values of `rcx` and `r11` are in the thread area. Each of the two is loaded when an instruction
//! needs it, or at the end of the block unless that is another indirect transfer. So series of
//! calls and returns, which rarely use these registers, do not load and store them each time.
//!
//! The entry (prefix and check) is before `main`. A *joined* block comes directly after its
//! predecessor, which falls through to its `main`. Its check is then after the cold code, and jumps
//! to `main`.
//!
//! A superblock has the blocks of a path one after the other ([`paths`]). It writes one number.
//! Where a thread leaves the path, this is the number of the blocks up to there. Otherwise it is
//! the number of the whole path, which is written at the start of the last block.
//!
//! Each direct exit is a jump that is linked by one store of 8 bytes at a multiple of 8. The same
//! input generates the same code, so the points of a block can be generated again when they are
//! needed.

mod emitted;
mod ends;
mod entries;
mod operations;
mod paths;
mod slots;
mod source;
mod writer;

use hmtt_probe::address::RunAddr;

use crate::block::{Block, Untranslatable};
use crate::layout::{PAGE_BYTES, area, ring};
use crate::recorded::{Choice, Recorded, Turn};
use crate::state::{Flags, Point, Registers, Rip};
pub use emitted::{Emitted, Entries, Exit, ExitKind, Leave};
pub use writer::{FALL_THROUGH, JUMP, Points, Section, register};

/// Addresses and settings on which all generated code of an arena depends.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Whether threads have rings. `r15` is then the pointer into the ring.
    pub ring: bool,
    /// Which accesses to memory are recorded in the ring, if any are.
    pub accesses: Option<Choice>,
    /// Address of the lookup table.
    pub table: u32,
    /// Address of the arena's stub for requests of direct exits.
    pub miss: u64,
    /// Address of the arena's stub for requests of indirect transfers.
    pub indirect: u64,
    /// Address of the arena's stub for full chunks.
    pub full: u64,
    /// Address of the arena's stub that notes system calls.
    pub returned: u64,
}

/// Where the code of a block or path is placed, and its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// First free address for hot code.
    pub hot: u64,
    /// Address after the free space for cold code, a multiple of 8.
    pub cold_limit: u64,
    /// Number that is written when all blocks of the path are executed.
    pub number: u32,
    /// Number of its first exit.
    pub first_exit: u32,
    /// Form of the code.
    pub form: Form,
    /// Which execution of a path the code is for, if the path may be repeated.
    pub turn: Turn,
    /// Where a thread continues after the full stub. `None`: behind the check of this code.
    pub after_full: Option<u64>,
}

/// How the code of a block is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Entered by direct transfers.
    Main {
        /// Whether the block before it falls through to it.
        joined: bool,
    },
    /// Entered through the lookup table, with `rcx` and `r11` in the thread area.
    Landing,
}

/// The registers that a lookup changes, `rcx` and `r11`. Their values are in the thread area when a
/// landing is entered.
pub const LOOKUP_REGISTERS: Registers =
    Registers::one(register::RCX).with(Registers::one(register::R11));

/// Blocks that are executed one after the other. Each but the last leads to the next one. A block
/// by itself is a path of one.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// The blocks, at least one.
    pub blocks: &'a [Block],
    /// Numbers of the blocks, one for each.
    pub numbers: &'a [u32],
}

/// Generates the code of a path. Each block of the path has a number, which stands for an execution
/// of the path up to this block. The number of the last block is `place.number`, and the other
/// numbers precede it: for three blocks and number 9, number 8 stands for the first two blocks.
///
/// # Errors
/// An instruction that cannot be moved to the place.
pub fn emit(
    path: Path<'_>,
    surroundings: &Surroundings,
    place: Place,
    points: Points,
) -> Result<Emitted, Untranslatable> {
    let mut emitter = Emitter::new(path, surroundings, place, points);
    emitter.entries();
    loop {
        for index in 0..emitter.block.body_len() {
            emitter.operation(index)?;
        }
        let Some(next) = path.blocks.get(emitter.position + 1) else { break };
        emitter.join(next)?;
    }
    emitter.end()?;
    Ok(emitter.finish())
}

/// Whether a transfer from a block to an address must enter it where the ring is checked: backward
/// transfers, and transfers to another page.
pub fn is_checked(from: RunAddr, to: RunAddr) -> bool {
    to <= from || !is_same_page(from, to)
}

fn is_same_page(address: RunAddr, other: RunAddr) -> bool {
    address.0 / PAGE_BYTES == other.0 / PAGE_BYTES
}

/// A section of code that is being generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Prefix and check.
    Entry,
    /// The rest of the code that is usually executed.
    Hot,
    Cold,
}

/// Where a displacement leads: an offset in a section, or an address.
#[derive(Clone, Copy, Debug)]
enum Goal {
    Within(Side, u32),
    Address(u64),
}

/// A displacement that is set when the addresses of all sections are known.
#[derive(Clone, Copy, Debug)]
struct Fix {
    side: Side,
    at: u32,
    goal: Goal,
}

/// The state of generation: what has been generated so far of a path.
struct Emitter<'a> {
    path: Path<'a>,
    /// The block whose code is being generated, and its index in the path.
    block: &'a Block,
    position: usize,
    /// Number of the blocks up to this one, as long as no number of the path is written to the
    /// ring.
    unwritten: Option<u32>,
    around: &'a Surroundings,
    place: Place,
    entry: Section,
    hot: Section,
    cold: Section,
    fixes: Vec<Fix>,
    exits: Vec<(Side, Exit)>,
    /// The places between blocks: offsets of the displacement in the hot code, and of the target in
    /// the cold code.
    leaves: Vec<(u32, u32)>,
    /// Registers whose values are always in the thread area: `r15` with a ring.
    always: Registers,
    /// Registers whose values have been in the thread area since the lookup, and are not loaded
    /// yet.
    unloaded: Registers,
    /// What the path records of its accesses, and how many of its slots the generated code has
    /// stored.
    recorded: Recorded,
    stored: u16,
    /// Number of instructions of the path before the block.
    before: usize,
    /// Whether a check of the ring may have overwritten the flags. A check does so only where the
    /// program does not need the flags.
    dirty_flags: bool,
    /// Offset of the check in the entry section, if there is a ring.
    checked: u32,
    /// Offset in the cold section of the displacement of the jump to the next landing.
    next: u32,
}

impl<'a> Emitter<'a> {
    fn new(path: Path<'a>, around: &'a Surroundings, place: Place, points: Points) -> Self {
        let block = &path.blocks[0];
        let bytes: usize = path.blocks.iter().map(|block| block.bytes.len() + 80).sum();
        let notes_points = points == Points::Noted;
        let always = if around.ring { Registers::one(register::R15) } else { Registers::NONE };
        Emitter {
            path,
            block,
            position: 0,
            unwritten: None,
            around,
            place,
            entry: Section::with_capacity(80, notes_points),
            hot: Section::with_capacity(bytes, notes_points),
            cold: Section::with_capacity(160 * path.blocks.len(), notes_points),
            fixes: Vec::with_capacity(8),
            exits: Vec::with_capacity(2),
            leaves: Vec::new(),
            always,
            unloaded: Registers::NONE,
            recorded: Recorded::default(),
            stored: 0,
            before: 0,
            dirty_flags: false,
            checked: 0,
            next: 0,
        }
    }

    fn is_joined(&self) -> bool {
        self.place.form == Form::Main { joined: true }
    }

    fn section(&mut self, side: Side) -> &mut Section {
        match side {
            Side::Entry => &mut self.entry,
            Side::Hot => &mut self.hot,
            Side::Cold => &mut self.cold,
        }
    }

    /// The original state of a thread between two blocks. `borrowed`: registers that are saved
    /// besides.
    fn between(&self, rip: Rip, borrowed: Registers) -> Point {
        let flags = if self.dirty_flags { Flags::Dead } else { Flags::Live };
        let borrowed = borrowed.with(self.always).with(self.unloaded);
        Point { borrowed, flags, unwritten: self.unwritten, ..Point::at(rip) }
    }

    /// The original state of a thread before the block at an address.
    fn before(&self, address: RunAddr) -> Point {
        self.between(Rip::Address(address), Registers::NONE)
    }

    /// The original state of a thread before an operation of the block. `borrowed`: registers that
    /// are saved besides.
    fn within(&self, index: usize, borrowed: Registers) -> Point {
        let address = match self.block.operations.get(index) {
            Some(operation) => RunAddr(operation.instruction.ip()),
            None => self.block.limit(),
        };
        let inside = Some((self.path.numbers[self.position], index as u16));
        let executed = (self.before + index) as u16;
        let is_recorded = self.around.accesses.is_some() && !self.is_silent();
        let recorded = is_recorded.then(|| (self.number_so_far(), executed));
        let between = self.between(Rip::Address(address), borrowed);
        Point { inside, recorded, stored: self.stored, ..between }
    }

    /// Notes a displacement at an offset of a section, to be set later.
    fn fix(&mut self, side: Side, at: u32, goal: Goal) {
        self.fixes.push(Fix { side, at, goal });
    }

    /// Adds a jump that is never replaced.
    fn jump(&mut self, side: Side, opcode: &[u8], goal: Goal) {
        let section = self.section(side);
        section.put(opcode);
        let at = section.len();
        section.put(&[0; 4]);
        self.fix(side, at, goal);
    }

    /// Whether another block of the path follows this one.
    fn is_inner(&self) -> bool {
        self.position + 1 < self.path.blocks.len()
    }

    /// Adds the jump of an exit, and the cold code that asks for its target. `point`: the state
    /// before the jump.
    fn exit(&mut self, side: Side, opcode: &[u8], to: RunAddr, kind: ExitKind, point: Point) {
        let number = self.place.first_exit + self.exits.len() as u32;
        let at = self.section(side).jump(opcode, Some(point));
        let (displacement, request) = (u64::from(at), u64::from(self.cold.len()));
        self.exits.push((side, Exit { displacement, is_last: false, to, kind, request }));
        self.fix(side, at, Goal::Within(Side::Cold, self.cold.len()));
        let rip = Rip::Address(to);
        let state = Point { rip, ..point };
        // In the cold code, the jump has been taken already.
        let is_between = match kind {
            ExitKind::Direct { .. } | ExitKind::Again { .. } => true,
            ExitKind::Left | ExitKind::Changed => true,
            ExitKind::Syscall { .. } | ExitKind::Native => false,
        };
        let (inside, recorded) =
            if is_between { (None, None) } else { (point.inside, point.recorded) };
        let state = Point { inside, recorded, ..state };
        self.cold.point(state);
        self.cold.store_word(area::EXIT, number);
        self.cold.point(state);
        self.cold.store_value(area::TARGET, to.0, Some(state));
        self.cold.point(state);
        self.jump(Side::Cold, &[0xe9], Goal::Address(self.around.miss));
    }

    /// Adds the exit of a direct transfer. `point`: the state before the jump.
    fn direct(&mut self, opcode: &[u8], to: RunAddr, point: Point) {
        let is_path = self.path.blocks.len() > 1;
        let is_checked = is_path || is_checked(self.block.start, to) || self.is_dense();
        let checked = self.around.ring && is_checked;
        let kind = self.again(to).unwrap_or(ExitKind::Direct { checked });
        self.exit(Side::Hot, opcode, to, kind, point);
    }

    /// The kind of a transfer from the end of a path to its start, if the path may be repeated.
    fn again(&self, to: RunAddr) -> Option<ExitKind> {
        let first = match self.place.turn {
            Turn::Any => return None,
            Turn::First => self.place.number,
            Turn::Repeated(first) => first,
        };
        let is_back = !self.is_inner() && to == self.path.blocks[0].start;
        (is_back && self.block.may_be_repeated_from()).then_some(ExitKind::Again { first })
    }

    /// Sets the displacements, now that the size of the cold code is known.
    fn finish(mut self) -> Emitted {
        let is_joined = self.is_joined();
        let after = if is_joined { self.entry.len() } else { 0 };
        let size = u64::from(self.cold.len() + after).next_multiple_of(8);
        self.cold.base = self.place.cold_limit - size;
        if is_joined {
            self.entry.base = self.cold.here();
        }
        for Fix { side, at, goal } in std::mem::take(&mut self.fixes) {
            let target = match goal {
                Goal::Within(side, offset) => self.section(side).base + u64::from(offset),
                Goal::Address(address) => address,
            };
            self.section(side).set_displacement(at, target);
        }
        let end = self.hot.here();
        let mut exits = Vec::with_capacity(self.exits.len());
        for (side, mut exit) in std::mem::take(&mut self.exits) {
            exit.displacement += self.section(side).base;
            exit.request += self.cold.base;
            exit.is_last = exit.displacement + 4 == end;
            exits.push(exit);
        }
        let leaves = self.leaves.iter().map(|(displacement, to)| Leave {
            displacement: self.hot.base + u64::from(*displacement),
            to: self.cold.base + u64::from(*to),
        });
        let leaves = leaves.collect();
        let (prefix, main) = (self.entry.base, self.hot.base);
        let checked = if self.around.ring { prefix + u64::from(self.checked) } else { main };
        let next = self.cold.base + u64::from(self.next);
        let entries = Entries { prefix, checked, main, next };
        let (hot, cold) = if is_joined {
            (self.hot, self.cold.followed_by(self.entry))
        } else {
            (self.entry.followed_by(self.hot), self.cold)
        };
        Emitted { hot, cold, entries, exits, leaves }
    }
}

/// The bits that are 0 in the slack behind chunks are all in one byte, which [`entries`] moves to
/// `ch`.
const _: () = assert!(ring::PLACE_MASK == 0xff << 16);
