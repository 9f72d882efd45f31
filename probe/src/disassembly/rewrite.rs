//! Plans the changes of one function, so that its entry can be tagged, and its exits where
//! requested.
//!
//! Regions are moved to stubs. Where there is no space for a jump of five bytes, a two-byte jump
//! leads to an island: five bytes that become free when other instructions move. A tail call whose
//! encoding reaches any distance is redirected in place.
//!
//! ```text
//! before  f:      xor eax, eax   after  f:      jmp island      2 bytes
//!         again:  ...                   again:  ...             a loop that is too long to be moved
//!         h:      10 bytes              h:      jmp stub of h   5 bytes
//!                                       island: jmp stub of f   5 bytes that the move of h has freed
//! ```

mod exits;
mod finish;
mod heads;
mod spans;

use std::ops::Range;

use iced_x86::Instruction;

use super::blocks::{self, Block, Granularity, NaturalLoop};
use super::body::Body;
use super::code_index::CodeIndex;
use super::exit_site::{self, ExitKind};
use super::region::{RegionFinder, Span};
use super::{JUMP_BYTES, Refusal, SHORT_BYTES, branch_target, is_call};
use crate::elf::{Function, Image};
use spans::Spans;

/// Maximum size in bytes of a function that is moved as a whole if possible. Then there is one jump
/// instead of a jump at the entry and at each exit.
const WHOLE: u64 = 320;
/// Maximum number of instructions by which a region extends before or behind the instruction that
/// it is made for.
const AROUND: usize = 8;

/// Instructions that are moved to a stub, with the jump that replaces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Instructions to be moved, in program order.
    pub instructions: Vec<Instruction>,
    /// Whether the region begins with the function's first instruction.
    pub entry: bool,
    /// Instructions that leave the function: index within the region, and the way in which each
    /// leaves.
    pub exit_sites: Vec<(usize, ExitKind)>,
    /// Address behind the bytes that may be overwritten.
    pub limit: u64,
    /// Encoding of the jump to the stub.
    pub jump: Jump,
}

/// Encoding of the jump to a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// A five-byte jump at the start of the region.
    Near,
    /// A two-byte jump to an island at this address, which holds the five-byte jump.
    Island(u64),
    /// A two-byte jump for which no island is known yet.
    Missing,
}

impl Region {
    /// Address of the region's first instruction.
    pub fn start(&self) -> u64 {
        self.instructions.first().map_or(0, Instruction::ip)
    }
}

/// All changes of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Regions to be moved. The region with the function's entry is first.
    pub regions: Vec<Region>,
    /// Replacement for the region of the entry, if that region needs an island and none is found.
    pub fallback: Option<Region>,
    /// Exit sites and blocks that are copied to a stub but stay in place. The branches to them are
    /// redirected to the copy.
    pub detours: Vec<Region>,
    /// Number of instructions of the stack check at the entry. The entry tag comes behind them.
    pub check: usize,
    /// `None` if no branch of the function leads to its first instruction. Otherwise, whether flags
    /// may be live there after such a branch.
    pub entry_loop: Option<bool>,
    /// Branches that get another target: a stub with an exit tag, or the copy of a detour.
    pub redirects: Vec<Instruction>,
    /// Exit sites that cannot be tagged: address and reason.
    pub hidden: Vec<(u64, Refusal)>,
    /// Requested blocks. A block without a refusal is tagged: its head is in a region or a detour.
    pub blocks: Vec<Block>,
    /// Natural loops of the function, if blocks or loops are requested.
    pub loops: Vec<NaturalLoop>,
}

impl Rewrite {
    /// Blocks that are tagged.
    pub fn tagged_blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.refusal.is_none())
    }

    /// Ranges of instructions that are moved, copied or changed.
    fn changed_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let regions = self.regions.iter().chain(&self.fallback).chain(&self.detours);
        let moved = regions.map(|region| {
            let last = region.instructions.last().map_or(0, Instruction::next_ip);
            region.start()..region.limit.max(last)
        });
        moved.chain(self.redirects.iter().map(|branch| branch.ip()..branch.next_ip()))
    }
}

/// Plans the changes of a function and its separate parts. Also returns the address ranges that
/// become free. `exits`: whether exit sites are tagged. `granularity`: whether loops or blocks are
/// tagged.
///
/// # Errors
/// [`Refusal`]: the reason why the function's entry cannot be tagged.
pub(super) fn plan(
    image: &Image,
    code_index: &CodeIndex,
    function: &Function,
    parts: &[Range<u64>],
    exits: bool,
    granularity: Granularity,
) -> Result<(Rewrite, Vec<Range<u64>>), Refusal> {
    let range = function.start..function.start + function.size;
    // A byte of a part that differs in memory may belong to a branch to any place in the function.
    if let Some(refusal) = parts.iter().find_map(|part| image.memory_difference(part)) {
        return Err(refusal);
    }
    let tags_blocks = granularity != Granularity::Function;
    let mut with_parts = std::iter::once(&range).chain(parts).filter(|_| exits || tags_blocks);
    if let Some(refusal) = with_parts.find_map(|part| image.sequence_within(part)) {
        return Err(refusal);
    }
    let mut rewrite = Rewrite::default();
    let mut bodies = vec![Body::read(image, range.clone(), range.clone())?];
    bodies[0].go.allow(code_index, &bodies[0], exits)?;
    rewrite.check = bodies[0].go.check;
    for part in parts.iter().filter(|_| exits || tags_blocks) {
        match Body::read(image, part.clone(), range.clone()) {
            Ok(body) => bodies.push(body),
            Err(refusal) => rewrite.hidden.push((part.start, refusal)),
        }
    }
    if tags_blocks {
        (rewrite.blocks, rewrite.loops) =
            blocks::find(image, code_index, &bodies, granularity, exits);
    }
    if bodies[0].go.is_go {
        rewrite.blocks.iter_mut().for_each(|block| block.refusal = Some(Refusal::GoBlock));
    }
    rewrite.entry_loop = if rewrite.check == 0 { entry_loop(&bodies) } else { None };
    let mut free = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        let mut planner = Planner::new(image, code_index, body, exits);
        planner.granularity = granularity;
        if number == 0 {
            let entered_within = code_index.computes_entry(body.range.start);
            let refused = |refusal| entered_within.map_or(refusal, Refusal::EnteredWithin);
            planner.plan_entry().map_err(refused)?;
        }
        planner.plan_exits();
        planner.plan_heads(&mut rewrite.blocks);
        free.extend(planner.finish(&mut rewrite));
    }
    let refusal = rewrite.changed_ranges().find_map(|changed| image.sequence_within(&changed));
    refusal.map_or(Ok((rewrite, free)), Err)
}

/// Whether flags may be live at the function's first instruction after a branch of the function to
/// it; `None` if there is no such branch.
fn entry_loop(bodies: &[Body]) -> Option<bool> {
    let (first, parts) = bodies.split_first()?;
    let start = first.range.start;
    let leads_to_start = |body: &Body| {
        body.instructions.iter().any(|instruction| branch_target(instruction) == Some(start))
    };
    let is_target = !first.branches_to(start).is_empty() || parts.iter().any(leads_to_start);
    is_target.then(|| blocks::are_flags_alive(first, 0))
}

/// Plans the changes of one body.
struct Planner<'a> {
    finder: RegionFinder<'a>,
    granularity: Granularity,
    exit_sites: Vec<(usize, ExitKind)>,
    spans: Spans,
    /// Spans with space for a two-byte jump only.
    short: Spans,
    /// Spans that control reaches by branches only; the branches are redirected.
    detours: Spans,
    /// Replacement for the span of the entry, if that span has space for two bytes only.
    fallback: Option<Span>,
    redirects: Vec<Instruction>,
    hidden: Vec<(u64, Refusal)>,
}

impl<'a> Planner<'a> {
    fn new(image: &'a Image, code_index: &'a CodeIndex, body: &'a Body, exits: bool) -> Self {
        let exit_site = |index| Some((index, exit_site::find(image, body, index)?));
        let count = if exits { body.instructions.len() } else { 0 };
        Planner {
            finder: RegionFinder { image, code_index, body },
            granularity: Granularity::Function,
            exit_sites: (0..count).filter_map(exit_site).collect(),
            spans: Spans::default(),
            short: Spans::default(),
            detours: Spans::default(),
            fallback: None,
            redirects: Vec::new(),
            hidden: Vec::new(),
        }
    }

    fn start(&self, span: &Span) -> u64 {
        self.finder.body.address(span.first)
    }

    fn bytes(&self, span: &Span) -> u64 {
        span.limit - self.start(span)
    }

    /// Plans the region that begins with the function's first instruction.
    fn plan_entry(&mut self) -> Result<(), Refusal> {
        let body = self.finder.body;
        let count = body.instructions.len();
        let small =
            body.range.end - body.range.start <= WHOLE || self.granularity == Granularity::Blocks;
        let whole = small.then(|| self.finder.close(0, count).ok()).flatten();
        if let Some(span) = whole
            && self.bytes(&span) >= JUMP_BYTES as u64
        {
            self.spans.push(span);
            return Ok(());
        }
        let (span, short) = match self.first_span(JUMP_BYTES as u64) {
            Ok(span) => match self.before_call(&span) {
                Some(before) => {
                    self.fallback = Some(span);
                    (before, true)
                }
                None => (span, false),
            },
            Err(refusal) => {
                let whole = whole.filter(|span| self.bytes(span) >= SHORT_BYTES);
                let span = whole.map_or_else(|| self.first_span(SHORT_BYTES), Ok);
                (span.map_err(|_| refusal)?, true)
            }
        };
        let spans = if short { &mut self.short } else { &mut self.spans };
        spans.push(span);
        Ok(())
    }

    /// The part of a region before the call at its end, if the part has space for a short jump. A
    /// moved call costs ten times as much as an island, because processors mispredict its return.
    fn before_call(&self, span: &Span) -> Option<Span> {
        let body = self.finder.body;
        // Otherwise heads of blocks may use the space of the entry's replacement.
        let is_plain = self.granularity == Granularity::Function;
        if span.end < 2 || !is_plain || !is_call(&body.instructions[span.end - 1]) {
            return None;
        }
        let before = self.finder.close(0, span.end - 1).ok()?;
        (before.end < span.end && self.bytes(&before) >= SHORT_BYTES).then_some(before)
    }

    /// The smallest region at the entry that has at least `least` bytes.
    fn first_span(&self, least: u64) -> Result<Span, Refusal> {
        let mut end = self.finder.body.go.check.max(1);
        while end <= self.finder.body.instructions.len() {
            let span = self.finder.close(0, end)?;
            if self.bytes(&span) >= least {
                return Ok(span);
            }
            end = span.end + 1;
        }
        Err(Refusal::TooShort)
    }
}
