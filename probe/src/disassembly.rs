//! Decides which instructions of a function are replaced by jumps to stubs, at its entry and its
//! exits.
//!
//! A jump takes [`JUMP_BYTES`]. Whole instructions are moved to a stub to make space for it. The
//! result is a [`Rewrite`] for each function, from which [`crate::stubs`] generates code.
//! Invariant: among overwritten bytes, control arrives only at the first byte, and no return
//! address lies within them. A function for which this cannot be shown is refused ([`Refusal`]).
//!
//! For example, a function begins with `push rbp` (1 byte), `mov rbp, rsp` (3 bytes) and
//! `sub rsp, 16` (4 bytes). All three are moved, because a jump over the first two would cut the
//! third. If a loop of the function branches to the `sub`, the branch must be moved as well.
//! Otherwise a two-byte jump replaces only the first two instructions.

mod address_set;
mod blocks;
mod body;
mod call;
mod code_index;
mod computed_bases;
mod exit_site;
mod go;
mod go_limits;
mod island_allocator;
mod islands;
mod loops;
mod refusal;
mod region;
mod rewrite;
mod sites;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::elf::{Function, Image, Text};

pub use blocks::{Block, Granularity, NaturalLoop};
pub use call::Call;
use code_index::CodeIndex;
pub use exit_site::ExitKind;
use island_allocator::IslandAllocator;
pub use refusal::Refusal;
pub use rewrite::{Jump, Region, Rewrite};
pub use sites::{Site, SiteKind};

/// Bytes of `jmp rel32`, which reaches any target within 2 GiB.
pub const JUMP_BYTES: usize = 5;
/// Bytes of `jmp rel8`.
pub const SHORT_BYTES: u64 = 2;

/// Index of all instructions of a file. Planning a rewrite needs it.
#[derive(Debug)]
pub struct FileIndex {
    code_index: CodeIndex,
    /// For each function, by its start, the address ranges of its separate parts (`.cold`).
    parts: HashMap<u64, Vec<Range<u64>>>,
}

impl FileIndex {
    /// Decodes all instructions of all functions.
    pub fn new(image: &Image) -> Self {
        let code_index = CodeIndex::new(image);
        let mut parts: HashMap<u64, Vec<Range<u64>>> = HashMap::new();
        for (part, function) in code_index.owners() {
            let range = code_index::fragment_at(image, part).cloned();
            parts.entry(function).or_default().extend(range);
        }
        FileIndex { code_index, parts }
    }

    /// Address ranges of separate parts of functions, ascending. Each comes with the start of the
    /// function that a branch connects with the part. Parts that no branch connects with a function
    /// are left out.
    pub fn parts(&self) -> Vec<(Range<u64>, u64)> {
        let owned = |(function, parts): (&u64, &Vec<Range<u64>>)| {
            let function = *function;
            parts.iter().map(move |part| (part.clone(), function)).collect::<Vec<_>>()
        };
        let mut parts: Vec<_> = self.parts.iter().flat_map(owned).collect();
        parts.sort_by_key(|(part, _)| part.start);
        parts
    }
}

/// A file together with the index of its instructions.
#[derive(Clone, Copy, Debug)]
pub struct Disassembly<'a> {
    image: &'a Image,
    index: &'a FileIndex,
}

impl<'a> Disassembly<'a> {
    /// Combines an image with its index. `index` must have been made from the same image.
    pub fn new(image: &'a Image, index: &'a FileIndex) -> Self {
        Disassembly { image, index }
    }

    /// Instructions that call functions or jump to other functions, by address.
    pub fn sites(&self) -> Vec<Site> {
        sites::find(self.image)
    }

    /// Calls with a direct target.
    pub fn calls(&self) -> &[Call] {
        self.index.code_index.calls()
    }

    /// Plans the changes of each function: its entry can then be tagged, and its exits if `exits`
    /// is set. If the entry cannot be tagged, the result for the function is the reason.
    ///
    /// # Errors
    /// [`Refusal`] for each function whose entry cannot be tagged.
    pub fn rewrites(&self, functions: &[&Function], exits: bool) -> Vec<Result<Rewrite, Refusal>> {
        let functions: Vec<_> =
            functions.iter().map(|function| (*function, Granularity::Function)).collect();
        self.rewrites_with_granularity(&functions, exits)
    }

    /// Like [`Disassembly::rewrites`]. In addition, loops or blocks are tagged where the
    /// granularity of a function requests this.
    ///
    /// # Errors
    /// [`Refusal`] for each function whose entry cannot be tagged.
    pub fn rewrites_with_granularity(
        &self,
        functions: &[(&Function, Granularity)],
        exits: bool,
    ) -> Vec<Result<Rewrite, Refusal>> {
        let (image, code_index) = (self.image, &self.index.code_index);
        let mut allocator = IslandAllocator {
            image,
            code_index,
            free: Vec::new(),
            taken: BTreeMap::new(),
            last: None,
        };
        let mut rewrites: Vec<Result<Rewrite, Refusal>> = Vec::with_capacity(functions.len());
        let rewrite = |(function, granularity): &(&Function, Granularity)| {
            let parts = self.index.parts.get(&function.start).map_or(&[][..], Vec::as_slice);
            rewrite::plan(image, code_index, function, parts, exits, *granularity)
        };
        let some = |functions: &[(&Function, Granularity)]| {
            functions.iter().map(rewrite).collect::<Vec<_>>()
        };
        // Free bytes of functions that may still be refused. They can be used only after it is
        // certain that the function is rewritten.
        let mut uncertain: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for rewrite in in_parallel(functions, some).into_iter().flatten() {
            let number = rewrites.len();
            rewrites.push(rewrite.map(|(rewrite, free)| {
                let lacks_island = |region: &Region| region.entry && region.jump == Jump::Missing;
                if rewrite.regions.iter().any(lacks_island) {
                    uncertain.push((number, free))
                } else {
                    allocator.free.extend(free)
                }
                let regions = rewrite.regions.iter();
                allocator
                    .taken
                    .extend(regions.clone().map(|region| (region.start(), region.limit)));
                let islands = regions.filter_map(|region| match region.jump {
                    Jump::Island(island) => Some((island, island + JUMP_BYTES as u64)),
                    _ => None,
                });
                allocator.taken.extend(islands);
                let branches = rewrite.redirects.iter();
                allocator.taken.extend(branches.map(|branch| (branch.ip(), branch.next_ip())));
                rewrite
            }));
        }
        allocator.free.sort_by_key(|range| range.start);
        let mut more = Vec::new();
        for (number, free) in uncertain {
            complete(&mut rewrites[number], &mut allocator);
            if rewrites[number].is_ok() {
                more.extend(free);
            }
        }
        allocator.free.extend(more);
        allocator.free.sort_by_key(|range| range.start);
        rewrites.iter_mut().for_each(|rewrite| complete(rewrite, &mut allocator));
        rewrites
    }
}

/// Allocates the islands that a rewrite lacks. A function is refused if there is no island for its
/// entry. A second call changes nothing.
fn complete(rewrite: &mut Result<Rewrite, Refusal>, allocator: &mut IslandAllocator<'_>) {
    let Ok(plan) = rewrite else { return };
    let had_all = plan.regions.iter().all(|region| region.jump != Jump::Missing);
    match allocator.complete(plan) {
        Ok(()) => refuse_uncovered(plan, had_all),
        Err(refusal) => *rewrite = Err(refusal),
    }
}

/// Marks blocks that no region covers as refused. `has_all`: no region was dropped. Otherwise
/// blocks in detours are refused too, because the branches to a detour may have been in a dropped
/// region.
fn refuse_uncovered(rewrite: &mut Rewrite, has_all: bool) {
    if rewrite.blocks.is_empty() {
        return;
    }
    let detours = rewrite.detours.iter().filter(|_| has_all);
    let regions = rewrite.regions.iter().chain(detours);
    let moved = regions.flat_map(|region| &region.instructions).map(Instruction::ip);
    let moved: HashSet<u64> = moved.collect();
    for block in rewrite.blocks.iter_mut().filter(|block| !moved.contains(&block.start)) {
        block.refusal.get_or_insert(Refusal::TooShort);
    }
    // A region of a block may contain an exit site that has no region of its own.
    rewrite.hidden.retain(|(address, _)| !moved.contains(address));
}

/// Minimum number of items for which starting a thread is worthwhile.
const WORTH: usize = 256;
/// Maximum number of threads.
const THREADS: usize = 8;

/// Applies a function to all items. They are split into as many pieces as there are processors, one
/// piece for each thread. Results are in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], process: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let pieces = processors.min(THREADS).min(items.len() / WORTH).max(1);
    let mut pieces = items.chunks(items.len().div_ceil(pieces).max(1));
    let Some(first) = pieces.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = pieces.map(|piece| scope.spawn(|| process(piece))).collect();
        let mut results = vec![process(first)];
        let join = |other: std::thread::ScopedJoinHandle<'_, R>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        results.extend(others.into_iter().map(join));
        results
    })
}

/// Decodes instructions, up to the first invalid one.
pub(crate) fn instructions(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid())
}

/// Target of a direct branch that is not a call.
fn branch_target(instruction: &Instruction) -> Option<u64> {
    let branches = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    branches.then(|| instruction.near_branch_target()).filter(|target| *target != 0)
}

/// Whether an instruction pushes a return address.
pub(crate) fn is_call(instruction: &Instruction) -> bool {
    instruction.is_call_near()
        || instruction.is_call_near_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
}

/// Whether control can continue with the next instruction.
pub(crate) fn falls_through(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
    )
}

/// Bytes of the text at an address; `None` unless all bytes are in one segment.
pub(crate) fn bytes_of(image: &Image, start: u64, size: u64) -> Option<&[u8]> {
    let text = text_of(image, start)?;
    let at = usize::try_from(start - text.start).ok()?;
    text.bytes.get(at..at.checked_add(usize::try_from(size).ok()?)?)
}

/// The executable segment that contains an address.
fn text_of(image: &Image, address: u64) -> Option<&Text> {
    let after = image.text.partition_point(|text| text.start <= address);
    let text = image.text.get(after.checked_sub(1)?)?;
    (address - text.start < text.bytes.len() as u64).then_some(text)
}
