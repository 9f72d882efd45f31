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
//! The code of a block has two forms, of which each is generated when it is needed. The *main form*
//! is entered by direct transfers. A *landing* is entered through the lookup table. The values of
//! `rcx` and `r11` are then in the thread area, and each is loaded when an instruction needs it, or
//! at the end of the block if that is no other indirect transfer. So series of calls and returns,
//! which rarely use these registers, do not load and store them each time.
//!
//! The entry (prefix and check) is before `main`. A *joined* block follows its predecessor, which
//! falls through to `main`; the check is then after the cold code, and jumps to `main`.
//!
//! A superblock has the blocks of a path one after the other ([`paths`]). It writes one number:
//! where it leaves the path that of the blocks up to there, otherwise, at the start of its last
//! block, that of the whole path.
//!
//! Each direct exit is a jump that is linked by one store of 8 bytes at a multiple of 8. The same
//! input generates the same code, so the points of a block can be generated again when they are
//! needed.

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
pub use writer::{FALL_THROUGH, JUMP, Points, Section, register};

/// Addresses on which generated code depends.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Whether `r15` is the ring's pointer.
    pub ring: bool,
    /// Which accesses to memory are recorded in the ring, if any are.
    pub accesses: Option<Choice>,
    /// Address of the lookup table.
    pub table: u32,
    /// Address of the arena's stub for misses.
    pub miss: u64,
    /// Address of the arena's stub for indirect misses.
    pub indirect: u64,
    /// Address of the arena's stub for full chunks.
    pub full: u64,
    /// Address of the arena's stub that notes system calls.
    pub returned: u64,
}

/// Place of a block's code, and its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// First address that is free for code.
    pub hot: u64,
    /// Address after those that are free for cold code, a multiple of 8.
    pub cold_limit: u64,
    /// Number that is written when all blocks are executed.
    pub number: u32,
    /// Number of its first exit.
    pub first_exit: u32,
    /// Form of the code.
    pub form: Form,
    /// Of a path that may be repeated: which execution it is.
    pub turn: Turn,
    /// Where it continues behind its check after the ring was full, unless in this code.
    pub after_full: Option<u64>,
}

/// Form of a block's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Entered by direct transfers. `joined`: the block before it falls through to it.
    Main {
        /// Whether the block before it falls through to it.
        joined: bool,
    },
    /// Entered through the lookup table, with `rcx` and `r11` in the thread area.
    Landing,
}

/// Registers that a lookup changes, and whose values are in the thread area when a landing is
/// entered.
pub const LOOKUP_REGISTERS: Registers =
    Registers::one(register::RCX).with(Registers::one(register::R11));

/// What kind of exit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// A direct transfer. `checked`: it must enter its target where the ring is checked.
    Direct {
        /// Whether the ring is checked.
        checked: bool,
    },
    /// A direct transfer from the end of a path to its start, where the ring is checked: to the
    /// repeated path of the first one with this number, if that is in use.
    Again {
        /// Number of the first path as a whole.
        first: u32,
    },
    /// A system call about which the controller is asked. `cached`: address of its copy.
    Syscall {
        /// Address of the instruction's copy.
        cached: u64,
    },
    /// A transfer to an instruction that runs natively.
    Native,
    /// A transfer out of a superblock whose code has changed. It is never linked.
    Left,
    /// A transfer out of a block whose code has changed, before its first instruction. It is never
    /// linked.
    Changed,
}

/// An exit of a block.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Address of the displacement of its jump.
    pub displacement: u64,
    /// Whether its jump ends the code of the block, so that it can fall through instead.
    pub is_last: bool,
    /// Original address at which the program continues.
    pub to: RunAddr,
    /// Its kind.
    pub kind: ExitKind,
    /// Address of the code that asks for its target.
    pub request: u64,
}

/// A place between two blocks of a path at which threads can be made to leave it: an instruction
/// that does nothing, and can be replaced by a jump.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    /// Address of the displacement of the jump.
    pub displacement: u64,
    /// Address to which it leads.
    pub to: u64,
}

/// Code of a block.
#[derive(Debug)]
pub struct Emitted {
    /// Code that is usually executed.
    pub hot: Section,
    /// Cold code.
    pub cold: Section,
    /// Addresses at which it is entered.
    pub entries: Entries,
    /// The exits, in the order of their numbers.
    pub exits: Vec<Exit>,
    /// Places between the blocks of a path.
    pub leaves: Vec<Leave>,
}

/// Addresses at which the code of a block is entered.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Address of the prefix of a landing.
    pub prefix: u64,
    /// Address at which the ring is checked. Without a ring, as `main`.
    pub checked: u64,
    /// Address at which the block is entered without a check.
    pub main: u64,
    /// Address of the displacement of a landing's jump to the next landing with the same entry of
    /// the table.
    pub next: u64,
}

/// Blocks that are executed one after the other. Each but the last leads to the next one.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// The blocks, at least one.
    pub blocks: &'a [Block],
    /// Their numbers.
    pub numbers: &'a [u32],
}

/// Generates the code of a path. Numbers of its parts precede that of the whole, by length.
///
/// # Errors
/// An instruction that cannot be moved there.
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

/// Whether a transfer from a block to an address must enter it where the ring is checked.
pub fn is_checked(from: RunAddr, to: RunAddr) -> bool {
    to <= from || !is_same_page(from, to)
}

fn is_same_page(one: RunAddr, other: RunAddr) -> bool {
    one.0 / PAGE_BYTES == other.0 / PAGE_BYTES
}

/// Which section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Prefix and check.
    Entry,
    /// The rest of the code that is usually executed.
    Hot,
    Cold,
}

/// Where a displacement leads.
#[derive(Clone, Copy, Debug)]
enum Goal {
    Within(Side, u32),
    Address(u64),
}

/// A displacement that is set when all addresses are known.
#[derive(Clone, Copy, Debug)]
struct Fix {
    side: Side,
    at: u32,
    goal: Goal,
}

struct Emitter<'a> {
    path: Path<'a>,
    /// The block whose code is generated, and its place in the path.
    block: &'a Block,
    position: usize,
    /// The number of the blocks up to this one, if it is not written to the ring.
    unwritten: Option<u32>,
    around: &'a Surroundings,
    place: Place,
    entry: Section,
    hot: Section,
    cold: Section,
    fixes: Vec<Fix>,
    exits: Vec<(Side, Exit)>,
    /// Offsets in the hot and the cold section.
    leaves: Vec<(u32, u32)>,
    /// Registers that are always in the thread area.
    always: Registers,
    /// Registers of a landing that are still in the thread area.
    unloaded: Registers,
    /// What the path records of its accesses, and how many of its slots are stored.
    recorded: Recorded,
    stored: u16,
    /// How many instructions of the path precede the block.
    before: usize,
    /// Whether flags may have been overwritten by a check of the ring.
    dirty_flags: bool,
    /// Offset in the entry section of the check, if there is a ring.
    checked: u32,
    /// Offset in the cold section of the displacement of the jump to the next prefix.
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

    /// A state between blocks.
    fn between(&self, rip: Rip, borrowed: Registers) -> Point {
        let flags = if self.dirty_flags { Flags::Dead } else { Flags::Live };
        let borrowed = borrowed.with(self.always).with(self.unloaded);
        Point { borrowed, flags, unwritten: self.unwritten, ..Point::at(rip) }
    }

    /// The state between blocks, before the block at an address.
    fn before(&self, address: RunAddr) -> Point {
        self.between(Rip::Address(address), Registers::NONE)
    }

    /// The state before an operation of the block.
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

    /// Adds the jump of an exit, and the cold code that asks for its target.
    fn exit(&mut self, side: Side, opcode: &[u8], to: RunAddr, kind: ExitKind, point: Point) {
        let number = self.place.first_exit + self.exits.len() as u32;
        let at = self.section(side).jump(opcode, Some(point));
        let (displacement, request) = (u64::from(at), u64::from(self.cold.len()));
        self.exits.push((side, Exit { displacement, is_last: false, to, kind, request }));
        self.fix(side, at, Goal::Within(Side::Cold, self.cold.len()));
        let rip = Rip::Address(to);
        let state = Point { rip, ..point };
        // The jump has been taken.
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

    /// Adds the exit of a direct transfer.
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

/// The bits that are 0 in the slack behind chunks are those of one byte, which [`entries`] moves to
/// `ch`.
const _: () = assert!(ring::PLACE_MASK == 0xff << 16);
