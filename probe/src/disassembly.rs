//! Functions to the instructions that jumps to stubs can take the place of, at their entries and exits.
//!
//! A jump takes [`JUMP_BYTES`]. Whole instructions make room for it: they are moved to a stub. Invariant:
//! control arrives at what is overwritten at its first byte only, and no return address lies in it.

mod blocks;
mod body;
mod call;
mod flow;
mod go;
mod go_limits;
mod islands;
mod leaving;
mod loops;
mod marks;
mod neighbours;
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

pub use blocks::{Block, Grain};
pub use call::Call;
use flow::Flow;
pub use leaving::Leaving;
use neighbours::Neighbours;
pub use refusal::Refusal;
pub use rewrite::{Jump, Region, Rewrite};
pub use sites::{Site, SiteKind};

/// Bytes of a jump to anywhere within 2 GiB.
pub const JUMP_BYTES: usize = 5;
/// `jmp rel8`.
pub const SHORT_BYTES: u64 = 2;

/// What all instructions of a file say.
#[derive(Debug)]
pub struct Known {
    flow: Flow,
    /// Parts that lie apart, by the first address of their function.
    parts: HashMap<u64, Vec<Range<u64>>>,
}

impl Known {
    /// Reads all instructions of all functions.
    pub fn of(image: &Image) -> Self {
        let flow = Flow::of(image);
        let mut parts: HashMap<u64, Vec<Range<u64>>> = HashMap::new();
        for (part, function) in flow.owners() {
            let range = flow::fragment_at(image, part).cloned();
            parts.entry(function).or_default().extend(range);
        }
        Known { flow, parts }
    }
}

/// A file, and what is known of its instructions.
#[derive(Clone, Copy, Debug)]
pub struct Disassembly<'a> {
    image: &'a Image,
    known: &'a Known,
}

impl<'a> Disassembly<'a> {
    /// `known`: of this file.
    pub fn new(image: &'a Image, known: &'a Known) -> Self {
        Disassembly { image, known }
    }

    /// Places that lead to functions, by address.
    pub fn sites(&self) -> Vec<Site> {
        sites::of(self.image)
    }

    /// Calls that say where they lead.
    pub fn calls(&self) -> &[Call] {
        self.known.flow.calls()
    }

    /// What must be changed in functions so that their entries can be seen, and their exits if asked; for
    /// each, or why its entries cannot be seen.
    pub fn rewrites(&self, functions: &[&Function], exits: bool) -> Vec<Result<Rewrite, Refusal>> {
        let functions: Vec<_> = functions.iter().map(|one| (*one, Grain::Function)).collect();
        self.finer_rewrites(&functions, exits)
    }

    /// The same, and so that loops or blocks can be seen.
    pub fn finer_rewrites(
        &self,
        functions: &[(&Function, Grain)],
        exits: bool,
    ) -> Vec<Result<Rewrite, Refusal>> {
        let (image, flow) = (self.image, &self.known.flow);
        let mut neighbours =
            Neighbours { image, flow, free: Vec::new(), taken: BTreeMap::new(), last: None };
        let mut all: Vec<Result<Rewrite, Refusal>> = Vec::with_capacity(functions.len());
        let rewrite = |(function, grain): &(&Function, Grain)| {
            let parts = self.known.parts.get(&function.start).map_or(&[][..], Vec::as_slice);
            rewrite::of(image, flow, function, parts, exits, *grain)
        };
        let some =
            |functions: &[(&Function, Grain)]| functions.iter().map(rewrite).collect::<Vec<_>>();
        // What is free only if a function is tagged that may be refused yet.
        let mut unsure: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for rewrite in in_parallel(functions, some).into_iter().flatten() {
            let number = all.len();
            all.push(rewrite.map(|(rewrite, free)| {
                let lacks = |region: &Region| region.entry && region.jump == Jump::Missing;
                match rewrite.regions.iter().any(lacks) {
                    true => unsure.push((number, free)),
                    false => neighbours.free.extend(free),
                }
                let regions = rewrite.regions.iter();
                neighbours
                    .taken
                    .extend(regions.clone().map(|region| (region.start(), region.room)));
                let islands = regions.filter_map(|region| match region.jump {
                    Jump::Island(island) => Some((island, island + JUMP_BYTES as u64)),
                    _ => None,
                });
                neighbours.taken.extend(islands);
                let branches = rewrite.redirects.iter();
                neighbours.taken.extend(branches.map(|branch| (branch.ip(), branch.next_ip())));
                rewrite
            }));
        }
        neighbours.free.sort_by_key(|range| range.start);
        let mut more = Vec::new();
        for (number, free) in unsure {
            complete(&mut all[number], &mut neighbours);
            if all[number].is_ok() {
                more.extend(free);
            }
        }
        neighbours.free.extend(more);
        neighbours.free.sort_by_key(|range| range.start);
        all.iter_mut().for_each(|rewrite| complete(rewrite, &mut neighbours));
        all
    }
}

/// Finds the islands that a function lacks. It is refused if there is none for its entry; done once more, nothing is
/// changed.
fn complete(rewrite: &mut Result<Rewrite, Refusal>, neighbours: &mut Neighbours<'_>) {
    let Ok(found) = rewrite else { return };
    let had_all = found.regions.iter().all(|region| region.jump != Jump::Missing);
    match neighbours.complete(found) {
        Ok(()) => refuse_uncovered(found, had_all),
        Err(refusal) => *rewrite = Err(refusal),
    }
}

/// Takes note of blocks whose region did not come about. Unless all did (`has_all`), branches to detours may be
/// where they were.
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
    // Ways out that no region was made for may be in one that was made for a block.
    rewrite.hidden.retain(|(address, _)| !moved.contains(address));
}

/// Fewest items that are worth a thread.
const WORTH: usize = 256;
/// Most threads.
const THREADS: usize = 8;

/// Does something with all items, in as many pieces as there are processors; the results are in order.
fn in_parallel<T: Sync, R: Send>(items: &[T], something: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let pieces = processors.min(THREADS).min(items.len() / WORTH).max(1);
    let mut pieces = items.chunks(items.len().div_ceil(pieces).max(1));
    let Some(first) = pieces.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = pieces.map(|piece| scope.spawn(|| something(piece))).collect();
        let mut results = vec![something(first)];
        let join = |other: std::thread::ScopedJoinHandle<'_, R>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        results.extend(others.into_iter().map(join));
        results
    })
}

/// The instructions in some bytes, up to the first that is none.
pub(crate) fn instructions(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid())
}

/// Where a branch leads that is no call and that says so.
fn branch_target(instruction: &Instruction) -> Option<u64> {
    let branches = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    branches.then(|| instruction.near_branch_target()).filter(|target| *target != 0)
}

/// Whether an instruction pushes the address behind it.
pub(crate) fn is_call(instruction: &Instruction) -> bool {
    instruction.is_call_near()
        || instruction.is_call_near_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
}

/// Whether the next instruction may follow it.
pub(crate) fn goes_on(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
    )
}

/// Some bytes of the text, if it has them all.
pub(crate) fn bytes_of(image: &Image, start: u64, size: u64) -> Option<&[u8]> {
    let text = text_of(image, start)?;
    let at = usize::try_from(start - text.start).ok()?;
    text.bytes.get(at..at.checked_add(usize::try_from(size).ok()?)?)
}

/// The segment an address is in.
fn text_of(image: &Image, address: u64) -> Option<&Text> {
    let after = image.text.partition_point(|text| text.start <= address);
    let text = image.text.get(after.checked_sub(1)?)?;
    (address - text.start < text.bytes.len() as u64).then_some(text)
}
