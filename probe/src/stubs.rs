//! Generates the stubs: copies of moved instructions, with tags before function entries and exits.
//!
//! ```text
//! function   jmp stub | ...the rest                 stub   entry tag
//!                     ^-----------------------------------  moved instructions, jmp
//!            ...      | jmp stub                    stub   moved instructions, exit tag, ret
//! ```
//!
//! Input is a [`Rewrite`] for each function. Output is the code of all stubs, the [`Changes`] of
//! each function and the rows of an unwind table. [`tags`] describes what a tag does. Tags address
//! memory by the `gs` register, which programs on Linux leave unused: each thread's `gs` holds the
//! address of its own counters or records.
//!
//! Invariant: stubs contain no calls, so no return address points into a stub. A moved call becomes
//! a push of the original return address and a jump. Addresses in this module are addresses in the
//! file, as plain numbers; the load bias matters only where an address is used as a value.

pub(crate) mod boundary;
mod breakpoint;
pub(crate) mod chunk_switch;
mod error;
mod inline_bytes;
pub mod layout;
pub mod lookup;
mod moved_code;
mod order;
mod region;
pub(crate) mod restorer;
mod rows;
pub mod tags;
#[cfg(test)]
mod tests;
pub mod unfinished_tag;

use std::collections::HashMap;
use std::ops::Range;

pub use boundary::TagCode;
use hmtt_files::tag_log::FunctionId;
use iced_x86::{FlowControl, Instruction};

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{JUMP_BYTES, Jump, Rewrite, SHORT_BYTES};
pub use error::{StubError, StubErrorReason};
pub use inline_bytes::InlineBytes;
use order::{continuation, in_order, jumps};
use rows::Rows;
pub(crate) use rows::SHARED_SAVED;
pub use rows::{Origin, Row};
pub use tags::{Sink, TagPlace, Tags};

/// Alignment of stubs in bytes: the number of bytes that processors fetch at once.
const ALIGNMENT: usize = 16;
/// First bytes of `jmp rel32` and `jmp rel8`.
const JUMP: u8 = 0xe9;
const SHORT_JUMP: u8 = 0xeb;
/// Bytes to reserve in addition to the moved instructions themselves: for each instruction, for
/// each branch, and for each stub. These numbers are upper limits.
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
    /// Start and end of each region. Of a region's bytes only the jump at the start is executed.
    pub regions: Vec<(FileAddr, FileAddr)>,
    /// Original address and new address of each moved instruction, ascending.
    pub moved: Vec<(FileAddr, FileAddr)>,
    /// Position of each tag's code, with the address of the original instruction that follows the
    /// tag.
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
    /// Rows of the unwind table for cold instructions and for the stubs behind them.
    cold_rows: Rows,
    rows: Rows,
    lookup: Option<Lookup>,
}

/// A function whose stub searches the unwind tables of stubs ([`lookup`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Address of the function's first instruction.
    pub function: FileAddr,
    /// Address of the pointer to the first table.
    pub list: RunAddr,
}

/// The function whose stubs are being generated.
struct Context {
    start: u64,
    id: FunctionId,
    /// Tag of the function's entry, and exit tag for branches of the function to its own entry.
    entry: TagPlace,
    restart: TagPlace,
    /// Number of instructions before the tag of the entry: the length of the stack check.
    check: usize,
    /// For each target of a tail call, the address of the stub with the exit tag.
    exits: HashMap<u64, u64>,
    /// For each detour, by its address, the address of its copy.
    detours: HashMap<u64, u64>,
    /// For each region, by its start, the address of its stub. Stubs branch to a stub directly, not
    /// through the jump at the start of its region.
    copies: HashMap<u64, u64>,
    /// Tag of each block, by the address of the block's first instruction.
    heads: HashMap<u64, TagPlace>,
}

impl Stubs {
    /// Makes an empty set of stubs. `start`: address of the stubs in memory, within 2 GiB of all
    /// functions. `at_most`: maximum number of tags.
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

    /// Sets the function whose stub is to search the unwind tables of stubs. The function must be
    /// added after this.
    pub fn look_up(&mut self, lookup: Option<Lookup>) {
        self.lookup = lookup;
    }

    /// Address of the stubs, as an address in the file.
    #[cfg(test)]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Number of bytes of the code that tags share.
    #[cfg(test)]
    pub(crate) fn shared_bytes(&self) -> usize {
        self.tags.shared().len()
    }

    /// Rows of the unwind table for all stubs, and the address behind the last stub. Addresses are
    /// addresses in the file.
    pub fn rows(&self) -> (Vec<Row>, FileAddr) {
        let mut shared = Rows::default();
        if !self.tags.shared().is_empty() {
            shared.push_shared(self.start, self.tags.shared());
        }
        let row_lists = [&shared, &self.cold_rows, &self.rows].map(Rows::as_slice);
        (row_lists.concat(), FileAddr(self.end()))
    }

    /// All bytes of the stubs, from their start.
    pub fn code(&self) -> Vec<u8> {
        let prelude = self.tags.prelude();
        let stubs = &self.code[prelude.len()..];
        [&prelude[..], stubs].concat()
    }

    /// Maximum number of tags in a function's stubs.
    pub fn tags(rewrite: &Rewrite) -> usize {
        let regions = rewrite.regions.iter().chain(&rewrite.detours);
        let in_regions: usize = regions.map(|region| 1 + region.exit_sites.len()).sum();
        // The head of a block may be in a region and in a detour.
        in_regions + rewrite.redirects.len() + 2 * rewrite.blocks.len()
    }

    /// Maximum size of a function's stubs, in bytes.
    pub fn max_bytes(rewrite: &Rewrite, sink: Sink) -> u64 {
        let regions = || rewrite.regions.iter().chain(&rewrite.detours);
        let instruction_bytes = |instruction: &Instruction| {
            let is_branch = instruction.flow_control() != FlowControl::Next;
            instruction.len() as u64 + SLACK_BYTES + if is_branch { BRANCH_BYTES } else { 0 }
        };
        let instructions = regions().flat_map(|region| &region.instructions).map(instruction_bytes);
        let tags = Stubs::tags(rewrite) as u64;
        let stubs = regions().count() as u64 + tags;
        instructions.sum::<u64>() + stubs * STUB_BYTES + tags * sink.most_bytes() as u64
    }

    /// Generates a function's stubs. `start`: address of the function. `id`: number of the
    /// function; its tagged blocks have the numbers that follow.
    ///
    /// # Errors
    /// [`StubError`]; the stubs are unchanged then.
    pub fn add(
        &mut self,
        rewrite: &Rewrite,
        start: u64,
        id: FunctionId,
    ) -> Result<Changes, StubError> {
        let before = (self.code.len(), self.rows.len());
        let (exits, detours, copies) = Default::default();
        let blocks = (1..).zip(rewrite.tagged_blocks());
        let heads =
            blocks.map(|(at, block)| (block.start, TagPlace::block(id.offset(at), block.flags)));
        let heads = heads.collect();
        let (entry, restart) = (TagPlace::entry(id), TagPlace::exit(id));
        let in_loop =
            |place: TagPlace| rewrite.entry_loop.map_or(place, |flags| place.in_loop(flags));
        let (entry, restart) = (in_loop(entry), in_loop(restart));
        let check = rewrite.check;
        let mut context =
            Context { start, id, entry, restart, check, exits, detours, copies, heads };
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
}

/// Encodes a jump.
pub(crate) fn jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let distance = to.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)) as u32;
    let mut bytes = [JUMP; JUMP_BYTES];
    bytes[1..].copy_from_slice(&distance.to_le_bytes());
    bytes
}
