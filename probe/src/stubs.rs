//! Generates the stubs: copies of moved instructions, with tags before function entries and exits.
//!
//! ```text
//! function   jmp stub | ...the rest                 stub   entry tag
//!                     ^-----------------------------------  moved instructions, jmp
//!            ...      | jmp stub                    stub   moved instructions, exit tag, ret
//! ```
//!
//! Input is a [`Rewrite`] for each function; output is the code of all stubs, the [`Changes`] of
//! each function and the rows of an unwind table. What a tag does is in [`tags`]. Tags address
//! memory by the `gs` register, which programs on Linux leave unused: each thread's `gs` holds the
//! address of its own counters or records.
//!
//! Invariant: stubs contain no calls, so that no return address points into a stub. A moved call
//! becomes a push of the original return address and a jump. Addresses are those of the file, as
//! plain numbers within this module; the load bias matters only where an address is used as a value.

pub(crate) mod boundary;
mod breakpoint;
pub(crate) mod chunk_switch;
mod error;
mod inline_bytes;
pub mod layout;
pub mod lookup;
mod moved_code;
mod order;
pub(crate) mod restorer;
mod rows;
pub mod tags;
#[cfg(test)]
mod tests;
pub mod unfinished_tag;

use std::collections::HashMap;
use std::ops::Range;

pub use boundary::TagCode;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{ExitKind, JUMP_BYTES, Jump, Region, Rewrite, SHORT_BYTES, is_call};
pub use error::{StubError, StubErrorReason};
pub use inline_bytes::InlineBytes;
use moved_code::{MovedCode, TagSpace, encode};
use order::{continuation, in_order, jumps};
use rows::Rows;
pub(crate) use rows::SHARED_SAVED;
pub use rows::{Origin, Row};
pub use tags::{Sink, TagPlace, Tags};

/// Alignment of stubs in bytes: what processors fetch at once.
const ALIGNMENT: usize = 16;
/// First bytes of `jmp rel32` and `jmp rel8`.
const JUMP: u8 = 0xe9;
const SHORT_JUMP: u8 = 0xeb;
/// Bytes of `push qword [rip+disp32]`.
const PUSH_BYTES: usize = 6;
/// Bytes to reserve in addition to the moved instructions themselves: for each instruction, for
/// each branch, and for each stub. More than is ever needed.
const SLACK_BYTES: u64 = 2;
const BRANCH_BYTES: u64 = 32;
const STUB_BYTES: u64 = 48;

/// The changes of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Bytes to be written, by address.
    pub edits: Vec<(FileAddr, InlineBytes)>,
    /// Address of the stub for the function's entry.
    pub entry: FileAddr,
    /// Start and end of each region. Of its bytes only the jump at the start is executed.
    pub regions: Vec<(FileAddr, FileAddr)>,
    /// Address map of the moved instructions: original address, and address of the copy; ascending.
    pub moved: Vec<(FileAddr, FileAddr)>,
    /// The code of each tag, with the original instruction that follows it.
    pub tags: Vec<TagCode<FileAddr>>,
    /// Address range of the function's stubs.
    pub stubs: Range<FileAddr>,
    /// Whether the entry's stub searches the unwind tables of stubs ([`lookup`]).
    pub looks_up: bool,
}

/// Stubs of one file, stored one after the other.
#[derive(Clone, Debug)]
pub struct Stubs {
    start: u64,
    bias: LoadBias,
    tags: Tags,
    code: Vec<u8>,
    /// Rows of the unwind table for cold instructions, and for the stubs after them.
    cold_rows: Rows,
    rows: Rows,
    lookup: Option<Lookup>,
}

/// A function that is changed to search the unwind tables of stubs ([`lookup`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Address of its first instruction.
    pub function: FileAddr,
    /// Address of the pointer to the first table.
    pub list: RunAddr,
}

/// The function whose stubs are being generated.
struct Context {
    start: u64,
    number: u32,
    /// The tag of the function's entry, and the exit tag of its own branches to the entry.
    entry: TagPlace,
    restart: TagPlace,
    /// Number of instructions before the tag of the entry.
    check: usize,
    /// Stub with an exit tag for each target of a tail call.
    exits: HashMap<u64, u64>,
    /// Copy of each detour, by the detour's address.
    detours: HashMap<u64, u64>,
    /// Stub of each region, by the region's start. Stubs branch there directly, not through the
    /// region's jump.
    copies: HashMap<u64, u64>,
    /// Tag of each block, by the address of its head.
    heads: HashMap<u64, TagPlace>,
}

impl Stubs {
    /// Makes an empty set of stubs. `start`: their address in memory, within 2 GiB of all
    /// functions; `at_most`: largest number of tags.
    ///
    /// # Errors
    /// [`StubError`] if the code that tags share cannot be generated.
    pub fn new(
        start: RunAddr,
        bias: LoadBias,
        sink: Sink,
        at_most: usize,
    ) -> Result<Self, StubError> {
        let start = bias.to_file(start).0;
        let tags = Tags::new(sink, start, at_most)?;
        let code = vec![0xcc; tags.prelude_bytes()];
        let (cold_rows, rows) = Default::default();
        Ok(Stubs { start, bias, tags, code, cold_rows, rows, lookup: None })
    }

    /// Sets the function whose stub shall search the unwind tables of stubs, before it is added.
    pub fn look_up(&mut self, lookup: Option<Lookup>) {
        self.lookup = lookup;
    }

    /// Address of the stubs, in the file's address space.
    #[cfg(test)]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of the code that tags share.
    #[cfg(test)]
    pub(crate) fn shared_bytes(&self) -> usize {
        self.tags.shared().len()
    }

    /// Rows of the unwind table for all stubs, and the end address. Addresses are the file's.
    pub fn rows(&self) -> (Vec<Row>, FileAddr) {
        let mut shared = Rows::default();
        if !self.tags.shared().is_empty() {
            shared.push_shared(self.start, self.tags.shared());
        }
        let all = [&shared, &self.cold_rows, &self.rows].map(Rows::as_slice);
        (all.concat(), FileAddr(self.end()))
    }

    /// All bytes of the stubs, from their start.
    pub fn code(&self) -> Vec<u8> {
        let prelude = self.tags.prelude();
        let stubs = &self.code[prelude.len()..];
        [&prelude[..], stubs].concat()
    }

    /// Largest number of tags in a function's stubs.
    pub fn tags(rewrite: &Rewrite) -> usize {
        let regions = rewrite.regions.iter().chain(&rewrite.detours);
        let in_regions: usize = regions.map(|region| 1 + region.exit_sites.len()).sum();
        // A block's head may be in a region and in a detour.
        in_regions + rewrite.redirects.len() + 2 * rewrite.blocks.len()
    }

    /// Largest size of a function's stubs, in bytes.
    pub fn max_bytes(rewrite: &Rewrite, sink: Sink) -> u64 {
        let regions = || rewrite.regions.iter().chain(&rewrite.detours);
        let one = |instruction: &Instruction| {
            let is_branch = instruction.flow_control() != FlowControl::Next;
            instruction.len() as u64 + SLACK_BYTES + if is_branch { BRANCH_BYTES } else { 0 }
        };
        let instructions = regions().flat_map(|region| &region.instructions).map(one);
        let tags = Stubs::tags(rewrite) as u64;
        let stubs = regions().count() as u64 + tags;
        instructions.sum::<u64>() + stubs * STUB_BYTES + tags * sink.most_bytes() as u64
    }

    /// Generates a function's stubs. `start`: address of the function; `number`: its number, which
    /// those of its tagged blocks follow.
    ///
    /// # Errors
    /// [`StubError`]; the stubs are unchanged then.
    pub fn add(
        &mut self,
        rewrite: &Rewrite,
        start: u64,
        number: u32,
    ) -> Result<Changes, StubError> {
        let before = (self.code.len(), self.rows.len());
        let (exits, detours, copies) = Default::default();
        let blocks = (number + 1..).zip(rewrite.tagged_blocks());
        let heads =
            blocks.map(|(number, block)| (block.start, TagPlace::block(number, block.flags)));
        let heads = heads.collect();
        let (entry, restart) = (TagPlace::entry(number), TagPlace::exit(number));
        let in_loop =
            |place: TagPlace| rewrite.entry_loop.map_or(place, |flags| place.in_loop(flags));
        let (entry, restart) = (in_loop(entry), in_loop(restart));
        let check = rewrite.check;
        let mut context =
            Context { start, number, entry, restart, check, exits, detours, copies, heads };
        let mut changes = Changes::default();
        changes.stubs.start = FileAddr(self.end());
        let added = self.add_function(rewrite, &mut context, &mut changes);
        if added.is_err() {
            self.code.truncate(before.0);
            self.rows.truncate(before.1);
        }
        changes.stubs.end = FileAddr(self.end());
        changes.moved.sort_unstable();
        added.map(|()| changes)
    }

    fn add_function(
        &mut self,
        rewrite: &Rewrite,
        context: &mut Context,
        changes: &mut Changes,
    ) -> Result<(), StubError> {
        for target in jumps(rewrite) {
            if !context.exits.contains_key(&target) {
                let stub = self.exit_jump(context, target)?;
                let end = self.end().wrapping_sub(JUMP_BYTES as u64);
                changes.tags.push(TagCode::in_file(stub, end, target));
                context.exits.insert(target, stub);
            }
        }
        for detour in &rewrite.detours {
            self.align();
            let stub = self.add_region(detour, false, context, changes)?;
            context.detours.insert(detour.start(), stub);
        }
        let regions = in_order(rewrite, context.start);
        let mut falls_into_next = false;
        for (index, region) in regions.iter().enumerate() {
            if !falls_into_next {
                self.align();
            }
            let next = regions.get(index + 1);
            falls_into_next =
                region.entry && next.is_some_and(|next| continuation(region) == Some(next.start()));
            let stub = self.add_region(region, falls_into_next, context, changes)?;
            context.copies.insert(region.start(), stub);
            let lookup_stub = self.lookup_stub(rewrite, region, context, stub)?;
            changes.looks_up |= lookup_stub.is_some();
            let stub = lookup_stub.unwrap_or(stub);
            if region.entry {
                changes.entry = FileAddr(stub);
            }
            changes.regions.push((FileAddr(region.start()), FileAddr(region.limit)));
            let mut edit = |at, bytes| changes.edits.push((FileAddr(at), bytes));
            match region.jump {
                Jump::Near => edit(region.start(), jump(region.start(), stub).into()),
                Jump::Missing => {}
                Jump::Island(island) => {
                    let distance = island.wrapping_sub(region.start() + SHORT_BYTES) as u8;
                    edit(region.start(), [SHORT_JUMP, distance].into());
                    edit(island, jump(island, stub).into());
                }
            }
        }
        for branch in &rewrite.redirects {
            let target = branch.near_branch_target();
            let to = context.exits.get(&target).or_else(|| context.detours.get(&target));
            let Some(to) = to else { continue };
            let distance = to.wrapping_sub(branch.next_ip()) as u32;
            let place = FileAddr(branch.next_ip() - 4);
            changes.edits.push((place, distance.to_le_bytes().into()));
        }
        Ok(())
    }

    fn align(&mut self) {
        self.code.resize(self.code.len().next_multiple_of(ALIGNMENT), 0xcc);
    }

    /// Address of the next stub.
    fn end(&self) -> u64 {
        self.start.wrapping_add(self.code.len() as u64)
    }

    /// Generates a jump to another function, or to the start of the same, after an exit tag.
    /// Returns its address.
    fn exit_jump(&mut self, context: &Context, target: u64) -> Result<u64, StubError> {
        self.align();
        let start = self.end();
        let is_other = target != context.start;
        let place = if is_other { TagPlace::exit(context.number) } else { context.restart };
        let code = self.tag(&place, start, target)?;
        let from = start.wrapping_add(code.len() as u64);
        self.rows.push(Row { at: from, origin: Origin::At(target), lowered: 0 });
        let distance = target.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)).cast_signed();
        if i32::try_from(distance).is_err() {
            return Err(StubError { at: start, reason: StubErrorReason::TargetTooFar(target) });
        }
        self.code.extend(code);
        self.code.extend(jump(from, target));
        Ok(start)
    }

    /// Generates the code of a tag and adds its rows. `origin`: the original instruction that
    /// follows.
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

    /// Generates the search of unwind tables before the stub of the entry. Returns its address;
    /// `None` for other functions.
    fn lookup_stub(
        &mut self,
        rewrite: &Rewrite,
        region: &Region,
        context: &Context,
        stub: u64,
    ) -> Result<Option<u64>, StubError> {
        let lookup = self.lookup.filter(|one| region.entry && one.function.0 == context.start);
        // At the head of a loop the searched registers may be live.
        let Some(lookup) = lookup.filter(|_| rewrite.entry_loop.is_none()) else { return Ok(None) };
        self.align();
        let at = self.end();
        let code = lookup::code(lookup.list, at, stub);
        self.code.extend(code.map_err(StubError::encoding(at))?);
        self.rows.push(Row { at, origin: Origin::At(context.start), lowered: 0 });
        Ok(Some(at))
    }

    /// Generates the stub of a region. `runs_on`: the stub of the code after the region follows
    /// directly.
    fn add_region(
        &mut self,
        region: &Region,
        falls_into_next: bool,
        context: &Context,
        changes: &mut Changes,
    ) -> Result<u64, StubError> {
        let start = self.end();
        let MovedCode { instructions, places, tags, constant, origins, .. } =
            self.collect(region, falls_into_next, context)?;
        let (mut bytes, offsets) = encode(&instructions, start)?;
        let end_of_code = bytes.len() as u32;
        if let Some((value, at)) = constant {
            // A constant that the push reads; control never reaches it.
            bytes.resize(bytes.len().next_multiple_of(8), 0xcc);
            let push = offsets[at] as usize;
            let displacement = (bytes.len() - push - PUSH_BYTES) as u32;
            bytes.extend(value.0.to_le_bytes());
            bytes[push + 2..push + PUSH_BYTES].copy_from_slice(&displacement.to_le_bytes());
        }
        let mut tags = tags.into_iter().peekable();
        for (index, origin, lowered) in origins {
            let (Origin::At(address) | Origin::Copy(address)) = origin else { continue };
            while let Some(TagSpace { place, at, original }) =
                tags.next_if(|space| space.at < index)
            {
                let offset = offsets[at] as usize;
                let tag = start.wrapping_add(offset as u64);
                let code = self.tag(&place, tag, address)?;
                bytes[offset..offset + code.len()].copy_from_slice(&code);
                let end = tag.wrapping_add(code.len() as u64);
                changes.tags.push(TagCode::in_file(tag, end, original));
            }
            let Some(offset) = offsets.get(index) else { continue };
            let end = offsets.get(index + 1).copied().unwrap_or(end_of_code);
            let is_one = *offset as usize + length(&bytes[*offset as usize..]) == end as usize;
            // An instruction that was rewritten as several is represented by the first of them.
            let origin = if is_one { origin } else { Origin::At(address) };
            self.rows.push(Row { at: start.wrapping_add((*offset).into()), origin, lowered });
        }
        self.code.extend(bytes);
        let place = |(old, at): &(u64, usize)| {
            (FileAddr(*old), FileAddr(start.wrapping_add(offsets[*at].into())))
        };
        changes.moved.extend(places.iter().map(place));
        Ok(start)
    }

    /// Collects the instructions of a region's stub, with space for its tags.
    fn collect(
        &self,
        region: &Region,
        falls_into_next: bool,
        context: &Context,
    ) -> Result<MovedCode, StubError> {
        let mut moved = MovedCode { original: region.start(), ..MovedCode::default() };
        // Branches to the entry, or to the head of a block, lead to its tag.
        let is_branch_target = region.entry
            && context.check == 0
            && moved.add_tag(&self.tags, context.entry, region.start())?;
        for (index, instruction) in region.instructions.iter().enumerate() {
            moved.original = instruction.ip();
            // The entry tag follows the stack check, which is repeated after the stack has grown. A
            // branch to the instruction after the check does not enter the function.
            if region.entry && index == context.check && index > 0 {
                moved.add_tag(&self.tags, context.entry, 0)?;
            }
            moved.places.push((instruction.ip(), moved.instructions.len()));
            let exit_site = region.exit_sites.iter().find(|(at, _)| *at == index);
            let (mut instruction, head) = (*instruction, context.heads.get(&instruction.ip()));
            let at = instruction.ip();
            if is_branch_target && index == 0 {
                instruction.set_ip(0);
            }
            if let Some(place) = head
                && moved.add_tag(&self.tags, *place, instruction.ip())?
            {
                instruction.set_ip(0);
            }
            self.add_moved(&mut moved, instruction, at, exit_site.map(|(_, how)| *how), context)?;
        }
        if region.entry && context.check > 0 && context.check == region.instructions.len() {
            // All moved instructions precede the entry tag.
            moved.original = region.instructions.last().map_or(0, Instruction::next_ip);
            moved.add_tag(&self.tags, context.entry, 0)?;
        }
        let last = region.instructions.last().copied().unwrap_or_default();
        if last.is_call_near() || last.is_call_near_indirect() {
            let ip = moved.instructions.pop().map_or(0, |call| call.ip());
            moved.origins.pop();
            moved.push_call(last, self.bias.to_run(FileAddr(last.next_ip())), ip);
        } else if let Some(next) = continuation(region).filter(|_| !falls_into_next) {
            let to = context.copies.get(&next).copied().unwrap_or(next);
            let back = Instruction::with_branch(Code::Jmp_rel32_64, to);
            moved.push_jump(back.unwrap_or_default(), next);
        }
        Ok(moved)
    }

    /// Adds a copy of an instruction. `at`: its original address.
    fn add_moved(
        &self,
        moved: &mut MovedCode,
        mut instruction: Instruction,
        at: u64,
        exit_site: Option<ExitKind>,
        context: &Context,
    ) -> Result<(), StubError> {
        match exit_site {
            Some(ExitKind::Return | ExitKind::Computed) => {
                // Branches to the exit site lead to its tag.
                let place = TagPlace::exit(context.number);
                if moved.add_tag(&self.tags, place, instruction.ip())? {
                    instruction.set_ip(0);
                }
            }
            _ => {
                let target = instruction.near_branch_target();
                // The region may be in an adjacent function, whose exit this is not.
                let exit = exit_site.and_then(|_| context.exits.get(&target));
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

/// Length in bytes of the first instruction of some code.
fn length(code: &[u8]) -> usize {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode().len()
}

/// Encodes a jump.
pub(crate) fn jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let distance = to.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)) as u32;
    let mut bytes = [JUMP; JUMP_BYTES];
    bytes[1..].copy_from_slice(&distance.to_le_bytes());
    bytes
}
