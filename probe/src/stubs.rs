//! Moved instructions to stubs: tag the entry, do what stood there, tag the exit, or go on behind it.
//!
//! ```text
//! function   jmp stub | ...the rest                 stub   entry tag
//!                     ^-----------------------------------  moved instructions, jmp
//!            ...      | jmp stub                    stub   moved instructions, exit tag, ret
//! ```
//!
//! `gs` is a register that programs on Linux leave alone: each thread's holds the address of its own
//! counters or records. What a stub does beside what it must is in [`tags`]. Stubs hold no calls, so nothing ever
//! returns into one: a moved call pushes the return address it would have pushed, and jumps. Addresses are those of
//! the file; how far it is moved when it is loaded matters only where an address is a value.

pub(crate) mod boundary;
mod few;
mod gate;
pub mod layout;
pub mod lookup;
mod moved;
mod order;
pub(crate) mod restorer;
mod rows;
pub(crate) mod switch;
pub mod tags;
#[cfg(test)]
mod tests;
pub mod unfinished;

use std::collections::HashMap;
use std::ops::Range;

pub use boundary::TagCode;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

use crate::disassembly::{JUMP_BYTES, Jump, Leaving, Region, Rewrite, SHORT_BYTES, is_call};
pub use few::Few;
use moved::{Moved, Room, encode};
use order::{behind, in_order, jumps};
use rows::Rows;
pub(crate) use rows::SHARED_SAVED;
pub use rows::{Origin, Row};
pub use tags::{Sink, TagPlace, Tags};

/// What stubs begin at multiples of: what processors fetch at once.
const ALIGNMENT: usize = 16;
/// `jmp rel32`, `jmp rel8`.
const JUMP: u8 = 0xe9;
const SHORT_JUMP: u8 = 0xeb;
/// Bytes of `push qword [rip+disp32]`.
const PUSH_BYTES: usize = 6;
/// Room beside that for moved instructions themselves, for each of them, those that lead elsewhere, and a stub:
/// more than ever needed.
const SLACK_BYTES: u64 = 2;
const BRANCH_BYTES: u64 = 32;
const STUB_BYTES: u64 = 48;

/// Why a stub cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("its instructions cannot be moved to {at:x}: {reason}")]
pub struct StubError {
    /// Where to.
    pub at: u64,
    /// What is wrong.
    pub reason: String,
}

/// What a function is changed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Bytes to be put at addresses.
    pub edits: Vec<(u64, Few)>,
    /// The stub of its entry.
    pub entry: u64,
    /// What regions take: nothing is executed there any more but their first instruction.
    pub regions: Vec<(u64, u64)>,
    /// Each moved instruction: where it was, and where its counterpart is; ascending.
    pub moved: Vec<(u64, u64)>,
    /// The code of its tags, and the instruction of the original code that each precedes.
    pub tags: Vec<TagCode>,
    /// Where its stubs are.
    pub stubs: Range<u64>,
    /// Whether it looks stubs up.
    pub looks_up: bool,
}

/// Stubs, one behind the other.
#[derive(Clone, Debug)]
pub struct Stubs {
    start: u64,
    bias: u64,
    tags: Tags,
    code: Vec<u8>,
    /// Rows of unwind tables for cold instructions, and for the stubs behind them.
    cold_rows: Rows,
    rows: Rows,
    lookup: Option<Lookup>,
}

/// A function that is to look stubs up ([`lookup`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Its first instruction, in the file.
    pub function: u64,
    /// Where the list of tables is, in memory.
    pub list: u64,
}

/// A function whose stubs are being made.
struct Context {
    start: u64,
    number: u32,
    /// The tag of its entry, and that of a branch of its own there.
    entry: TagPlace,
    again: TagPlace,
    /// How many instructions come before the tag of its entry.
    check: usize,
    /// Where jumps lead that leave the function: to stubs with its exit tag.
    exits: HashMap<u64, u64>,
    /// Where branches to detours lead.
    detours: HashMap<u64, u64>,
    /// Where regions begin, and their stubs: other stubs go there at once, not through the jumps.
    copies: HashMap<u64, u64>,
    /// Heads of blocks.
    heads: HashMap<u64, TagPlace>,
}

impl Stubs {
    /// None yet. `start`: where they will be in memory, within 2 GiB of all functions; `bias`: added to
    /// all addresses of the file; `at_most`: how many tags there will be.
    ///
    /// # Errors
    /// [`StubError`] if what tags share cannot be made.
    pub fn new(start: u64, bias: u64, sink: Sink, at_most: usize) -> Result<Self, StubError> {
        let start = start.wrapping_sub(bias);
        let tags = Tags::new(sink, start, at_most)?;
        let code = vec![0xcc; tags.prelude_bytes()];
        let (cold_rows, rows) = Default::default();
        Ok(Stubs { start, bias, tags, code, cold_rows, rows, lookup: None })
    }

    /// Lets a function look stubs up, when it is added.
    pub fn look_up(&mut self, lookup: Option<Lookup>) {
        self.lookup = lookup;
    }

    /// Where they begin, as an address of the file.
    #[cfg(test)]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of the code that tags share.
    #[cfg(test)]
    pub(crate) fn shared_bytes(&self) -> usize {
        self.tags.shared().len()
    }

    /// Rows of an unwind table for all of the stubs, and the address behind them. Addresses are the file's.
    pub fn rows(&self) -> (Vec<Row>, u64) {
        let mut shared = Rows::default();
        if !self.tags.shared().is_empty() {
            shared.push_shared(self.start, self.tags.shared());
        }
        let all = [&shared, &self.cold_rows, &self.rows].map(Rows::as_slice);
        (all.concat(), self.end())
    }

    /// What is to be at their start.
    pub fn code(&self) -> Vec<u8> {
        let prelude = self.tags.prelude();
        let stubs = &self.code[prelude.len()..];
        [&prelude[..], stubs].concat()
    }

    /// How many tags a function's stubs have at most.
    pub fn tags(rewrite: &Rewrite) -> usize {
        let regions = rewrite.regions.iter().chain(&rewrite.detours);
        let in_regions: usize = regions.map(|region| 1 + region.leavings.len()).sum();
        // A head may be in a region and in a detour.
        in_regions + rewrite.redirects.len() + 2 * rewrite.blocks.len()
    }

    /// Room that a function's stubs need at most, in bytes.
    pub fn room(rewrite: &Rewrite, sink: Sink) -> u64 {
        let regions = || rewrite.regions.iter().chain(&rewrite.detours);
        let one = |instruction: &Instruction| {
            let leads = instruction.flow_control() != FlowControl::Next;
            instruction.len() as u64 + SLACK_BYTES + if leads { BRANCH_BYTES } else { 0 }
        };
        let instructions = regions().flat_map(|region| &region.instructions).map(one);
        let tags = Stubs::tags(rewrite) as u64;
        let stubs = regions().count() as u64 + tags;
        instructions.sum::<u64>() + stubs * STUB_BYTES + tags * sink.most_bytes() as u64
    }

    /// Adds a function's stubs. `start`: its own; `number`: of its counter, those of the blocks that are
    /// seen follow.
    ///
    /// # Errors
    /// [`StubError`]; nothing is changed.
    pub fn add(
        &mut self,
        rewrite: &Rewrite,
        start: u64,
        number: u32,
    ) -> Result<Changes, StubError> {
        let before = (self.code.len(), self.rows.len());
        let (exits, detours, copies) = Default::default();
        let blocks = (number + 1..).zip(rewrite.seen_blocks());
        let heads =
            blocks.map(|(number, block)| (block.start, TagPlace::block(number, block.flags)));
        let heads = heads.collect();
        let (entry, again) = (TagPlace::entry(number), TagPlace::exit(number));
        let in_loop = |place: TagPlace| rewrite.again.map_or(place, |flags| place.in_loop(flags));
        let (entry, again) = (in_loop(entry), in_loop(again));
        let check = rewrite.check;
        let mut context =
            Context { start, number, entry, again, check, exits, detours, copies, heads };
        let mut changes = Changes::default();
        changes.stubs.start = self.end();
        let added = self.function(rewrite, &mut context, &mut changes);
        if added.is_err() {
            self.code.truncate(before.0);
            self.rows.truncate(before.1);
        }
        changes.stubs.end = self.end();
        changes.moved.sort_unstable();
        added.map(|()| changes)
    }

    fn function(
        &mut self,
        rewrite: &Rewrite,
        context: &mut Context,
        changes: &mut Changes,
    ) -> Result<(), StubError> {
        for target in jumps(rewrite) {
            if !context.exits.contains_key(&target) {
                let stub = self.leaving(context, target)?;
                let end = self.end().wrapping_sub(JUMP_BYTES as u64);
                changes.tags.push(TagCode { start: stub, end, original: target });
                context.exits.insert(target, stub);
            }
        }
        for detour in &rewrite.detours {
            self.align();
            let stub = self.region(detour, false, context, changes)?;
            context.detours.insert(detour.start(), stub);
        }
        let regions = in_order(rewrite, context.start);
        let mut runs_on = false;
        for (index, region) in regions.iter().enumerate() {
            if !runs_on {
                self.align();
            }
            let next = regions.get(index + 1);
            runs_on = region.entry && next.is_some_and(|next| behind(region) == Some(next.start()));
            let stub = self.region(region, runs_on, context, changes)?;
            context.copies.insert(region.start(), stub);
            let looking_up = self.looking_up(rewrite, region, context, stub)?;
            changes.looks_up |= looking_up.is_some();
            let stub = looking_up.unwrap_or(stub);
            if region.entry {
                changes.entry = stub;
            }
            changes.regions.push((region.start(), region.room));
            match region.jump {
                Jump::Near => {
                    changes.edits.push((region.start(), jump(region.start(), stub).into()))
                }
                Jump::Missing => {}
                Jump::Island(island) => {
                    let distance = island.wrapping_sub(region.start() + SHORT_BYTES) as u8;
                    changes.edits.push((region.start(), [SHORT_JUMP, distance].into()));
                    changes.edits.push((island, jump(island, stub).into()));
                }
            }
        }
        for branch in &rewrite.redirects {
            let target = branch.near_branch_target();
            let to = context.exits.get(&target).or_else(|| context.detours.get(&target));
            let Some(to) = to else { continue };
            let distance = to.wrapping_sub(branch.next_ip()) as u32;
            changes.edits.push((branch.next_ip() - 4, distance.to_le_bytes().into()));
        }
        Ok(())
    }

    fn align(&mut self) {
        self.code.resize(self.code.len().next_multiple_of(ALIGNMENT), 0xcc);
    }

    /// Where the next stub begins.
    fn end(&self) -> u64 {
        self.start.wrapping_add(self.code.len() as u64)
    }

    /// A jump to another function, or to the same, with an exit tag before it.
    fn leaving(&mut self, context: &Context, target: u64) -> Result<u64, StubError> {
        self.align();
        let start = self.end();
        let is_other = target != context.start;
        let place = if is_other { TagPlace::exit(context.number) } else { context.again };
        let code = self.tag(&place, start, target)?;
        let from = start.wrapping_add(code.len() as u64);
        self.rows.push(Row { at: from, origin: Origin::At(target), lowered: 0 });
        let distance = target.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)).cast_signed();
        if i32::try_from(distance).is_err() {
            let reason = format!("{target:x}, where it goes on, is too far away");
            return Err(StubError { at: start, reason });
        }
        self.code.extend(code);
        self.code.extend(jump(from, target));
        Ok(start)
    }

    /// The code of a tag, whose rows are added. `origin`: the original instruction that comes next.
    fn tag(&mut self, place: &TagPlace, at: u64, origin: u64) -> Result<Vec<u8>, StubError> {
        if let Some(at) = self.tags.next_cold() {
            let lowered = place.below();
            self.cold_rows.push(Row { at, origin: Origin::At(origin), lowered });
        }
        let code = self.tags.code(place, at)?;
        if !code.is_empty() {
            self.rows.push_tag(at, origin, self.tags.lowered(place));
        }
        Ok(code)
    }

    /// What a function that looks stubs up does before the stub of its entry: where that is. `None` for others.
    fn looking_up(
        &mut self,
        rewrite: &Rewrite,
        region: &Region,
        context: &Context,
        stub: u64,
    ) -> Result<Option<u64>, StubError> {
        let lookup = self.lookup.filter(|one| region.entry && one.function == context.start);
        // A loop that comes back to the first instruction would lose registers.
        let Some(lookup) = lookup.filter(|_| rewrite.again.is_none()) else { return Ok(None) };
        self.align();
        let at = self.end();
        let code = lookup::code(lookup.list, at, stub);
        self.code.extend(code.map_err(|error| StubError { at, reason: error.to_string() })?);
        self.rows.push(Row { at, origin: Origin::At(context.start), lowered: 0 });
        Ok(Some(at))
    }

    /// `runs_on`: the stub of what is behind it comes next.
    fn region(
        &mut self,
        region: &Region,
        runs_on: bool,
        context: &Context,
        changes: &mut Changes,
    ) -> Result<u64, StubError> {
        let start = self.end();
        let Moved { instructions, places, tags, constant, origins, .. } =
            self.moved(region, runs_on, context)?;
        let (mut bytes, offsets) = encode(&instructions, start)?;
        let end_of_code = bytes.len() as u32;
        if let Some((value, at)) = constant {
            // Read by the push, and never reached.
            bytes.resize(bytes.len().next_multiple_of(8), 0xcc);
            let push = offsets[at] as usize;
            let displacement = (bytes.len() - push - PUSH_BYTES) as u32;
            bytes.extend(value.to_le_bytes());
            bytes[push + 2..push + PUSH_BYTES].copy_from_slice(&displacement.to_le_bytes());
        }
        let mut tags = tags.into_iter().peekable();
        for (index, origin, lowered) in origins {
            let (Origin::At(address) | Origin::Copy(address)) = origin else { continue };
            while let Some(Room { place, at, original }) = tags.next_if(|room| room.at < index) {
                let offset = offsets[at] as usize;
                let tag = start.wrapping_add(offset as u64);
                let code = self.tag(&place, tag, address)?;
                bytes[offset..offset + code.len()].copy_from_slice(&code);
                let end = tag.wrapping_add(code.len() as u64);
                changes.tags.push(TagCode { start: tag, end, original });
            }
            let Some(offset) = offsets.get(index) else { continue };
            let end = offsets.get(index + 1).copied().unwrap_or(end_of_code);
            let is_one = *offset as usize + length(&bytes[*offset as usize..]) == end as usize;
            // One that was rewritten as several stands at its first.
            let origin = if is_one { origin } else { Origin::At(address) };
            self.rows.push(Row { at: start.wrapping_add((*offset).into()), origin, lowered });
        }
        self.code.extend(bytes);
        let place = |(old, at): &(u64, usize)| (*old, start.wrapping_add(offsets[*at].into()));
        changes.moved.extend(places.iter().map(place));
        Ok(start)
    }

    fn moved(&self, region: &Region, runs_on: bool, context: &Context) -> Result<Moved, StubError> {
        let mut moved = Moved { original: region.start(), ..Moved::default() };
        // Branches to the entry, or to a head, lead to its tag.
        let is_found = region.entry
            && context.check == 0
            && moved.add_tag(&self.tags, context.entry, region.start())?;
        for (index, instruction) in region.instructions.iter().enumerate() {
            moved.original = instruction.ip();
            // Behind the check of the stack, which is done again when the stack has grown. What branches to the
            // instruction behind the check does not enter the function.
            if region.entry && index == context.check && index > 0 {
                moved.add_tag(&self.tags, context.entry, 0)?;
            }
            moved.places.push((instruction.ip(), moved.instructions.len()));
            let leaving = region.leavings.iter().find(|(at, _)| *at == index);
            let (mut instruction, head) = (*instruction, context.heads.get(&instruction.ip()));
            let at = instruction.ip();
            if is_found && index == 0 {
                instruction.set_ip(0);
            }
            if let Some(place) = head
                && moved.add_tag(&self.tags, *place, instruction.ip())?
            {
                instruction.set_ip(0);
            }
            self.add_moved(&mut moved, instruction, at, leaving.map(|(_, how)| *how), context)?;
        }
        if region.entry && context.check > 0 && context.check == region.instructions.len() {
            // All that is moved comes before it.
            moved.original = region.instructions.last().map_or(0, Instruction::next_ip);
            moved.add_tag(&self.tags, context.entry, 0)?;
        }
        let last = region.instructions.last().copied().unwrap_or_default();
        if last.is_call_near() || last.is_call_near_indirect() {
            let ip = moved.instructions.pop().map_or(0, |call| call.ip());
            moved.origins.pop();
            moved.push_call(last, last.next_ip().wrapping_add(self.bias), ip);
        } else if let Some(goes_on_at) = behind(region).filter(|_| !runs_on) {
            let to = context.copies.get(&goes_on_at).copied().unwrap_or(goes_on_at);
            let back = Instruction::with_branch(Code::Jmp_rel32_64, to);
            moved.push_jump(back.unwrap_or_default(), goes_on_at);
        }
        Ok(moved)
    }

    fn add_moved(
        &self,
        moved: &mut Moved,
        mut instruction: Instruction,
        at: u64,
        leaving: Option<Leaving>,
        context: &Context,
    ) -> Result<(), StubError> {
        match leaving {
            Some(Leaving::Return | Leaving::Computed) => {
                // Branches to the exit lead to its tag.
                let place = TagPlace::exit(context.number);
                if moved.add_tag(&self.tags, place, instruction.ip())? {
                    instruction.set_ip(0);
                }
            }
            _ => {
                let target = instruction.near_branch_target();
                // Instructions of a neighbour may be among them, which leave that.
                let exit = leaving.and_then(|_| context.exits.get(&target));
                let copy = || context.copies.get(&target).filter(|_| !is_call(&instruction));
                if let Some(to) = exit.or_else(|| context.detours.get(&target)).or_else(copy) {
                    instruction.set_near_branch64(*to);
                }
            }
        }
        moved.push_copy(instruction, at);
        Ok(())
    }
}

/// Bytes of the instruction that some code begins with.
fn length(code: &[u8]) -> usize {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode().len()
}

/// The bytes of a jump.
pub(crate) fn jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let distance = to.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)) as u32;
    let mut bytes = [JUMP; JUMP_BYTES];
    bytes[1..].copy_from_slice(&distance.to_le_bytes());
    bytes
}
