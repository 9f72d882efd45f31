//! A function to what must be changed so that every way in and every way out can be seen.
//!
//! Regions are moved to stubs. Where one of a jump's five bytes has no room, a jump of two leads to an
//! island: five bytes that are free once other instructions have moved. Jumps to functions that have room
//! for any distance are redirected where they stand.

mod exits;
mod finish;
mod heads;
mod spans;

use std::ops::Range;

use iced_x86::Instruction;

use super::blocks::{self, Block, Grain};
use super::body::Body;
use super::flow::Flow;
use super::leaving::{self, Leaving};
use super::region::{Ground, Span};
use super::{JUMP_BYTES, Refusal, SHORT_BYTES, branch_target, is_call};
use crate::elf::{Function, Image};
use spans::Spans;

/// Small functions are moved whole if they can be: one jump instead of one in and one out.
const WHOLE: u64 = 320;
/// How far a region around a place may reach, in instructions.
const AROUND: usize = 8;

/// Instructions to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// They.
    pub instructions: Vec<Instruction>,
    /// Whether the first one is the function's.
    pub entry: bool,
    /// How some of them leave the function, by number.
    pub leavings: Vec<(usize, Leaving)>,
    /// Address behind what may be overwritten.
    pub room: u64,
    /// How the jump to the stub is made.
    pub jump: Jump,
}

/// A jump to a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// It reaches it.
    Near,
    /// There is room for two bytes only, which lead to five free ones at this address.
    Island(u64),
    /// There is room for two bytes only, and no five free ones are known.
    Missing,
}

impl Region {
    /// Address of the first instruction.
    pub fn start(&self) -> u64 {
        self.instructions.first().map_or(0, Instruction::ip)
    }
}

/// What is changed in a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Regions; that of the entry comes first.
    pub regions: Vec<Region>,
    /// What the entry's region is to be if it needs an island and there is none.
    pub fallback: Option<Region>,
    /// Ways out that stay where they are, but are not arrived at: branches there lead to their copies.
    pub detours: Vec<Region>,
    /// How many instructions at its entry check the stack: the tag of its entry comes behind them.
    pub check: usize,
    /// If its own branches lead to its first instruction: whether flags may mean something there.
    pub again: Option<bool>,
    /// Branches that get another target: to functions, to detours.
    pub redirects: Vec<Instruction>,
    /// Ways out that cannot be seen.
    pub hidden: Vec<(u64, Refusal)>,
    /// Blocks that were asked for: all whose heads are in regions or detours are seen.
    pub blocks: Vec<Block>,
}

impl Rewrite {
    /// Blocks that are seen.
    pub fn seen_blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.refusal.is_none())
    }
}

/// Finds out what to change in a function, and in its parts that lie apart, and which bytes nothing needs
/// then. `exits`: whether ways out matter; `grain`: what else does.
///
/// # Errors
/// [`Refusal`]: why its entry cannot be seen.
pub(super) fn of(
    image: &Image,
    flow: &Flow,
    function: &Function,
    parts: &[Range<u64>],
    exits: bool,
    grain: Grain,
) -> Result<(Rewrite, Vec<Range<u64>>), Refusal> {
    let range = function.start..function.start + function.size;
    // A patch in a part may lead back to anywhere in the function.
    if let Some(refusal) = parts.iter().find_map(|part| image.unsettled(part)) {
        return Err(refusal);
    }
    let mut rewrite = Rewrite::default();
    let mut bodies = vec![Body::read(image, range.clone(), range.clone())?];
    bodies[0].go.allow(flow, &bodies[0], exits)?;
    rewrite.check = bodies[0].go.check;
    let is_finer = grain != Grain::Function;
    for part in parts.iter().filter(|_| exits || is_finer) {
        match Body::read(image, part.clone(), range.clone()) {
            Ok(body) => bodies.push(body),
            Err(refusal) => rewrite.hidden.push((part.start, refusal)),
        }
    }
    if is_finer {
        rewrite.blocks = blocks::of(image, flow, &bodies, grain);
    }
    if bodies[0].go.is_go {
        rewrite.blocks.iter_mut().for_each(|block| block.refusal = Some(Refusal::GoBlock));
    }
    rewrite.again = if rewrite.check == 0 { again(&bodies) } else { None };
    let mut free = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        let mut planner = Planner::new(image, flow, body, exits);
        planner.grain = grain;
        if number == 0 {
            planner.entry()?;
        }
        planner.exits();
        planner.heads(&mut rewrite.blocks);
        free.extend(planner.finish(&mut rewrite));
    }
    Ok((rewrite, free))
}

/// Whether one of a function's bodies leads to the first instruction of the first one, and if so, whether flags
/// may mean something there.
fn again(bodies: &[Body]) -> Option<bool> {
    let (first, parts) = bodies.split_first()?;
    let start = first.range.start;
    let leads = |body: &Body| body.instructions.iter().any(|one| branch_target(one) == Some(start));
    let is_led_to = !first.branches_to(start).is_empty() || parts.iter().any(leads);
    is_led_to.then(|| blocks::are_flags_alive(first, 0))
}

struct Planner<'a> {
    ground: Ground<'a>,
    grain: Grain,
    leavings: Vec<(usize, Leaving)>,
    spans: Spans,
    /// Those with room for a jump of two bytes only.
    short: Spans,
    /// Those that are not arrived at.
    detours: Spans,
    /// What may take the place of the entry's, which has room for two bytes only.
    fallback: Option<Span>,
    redirects: Vec<Instruction>,
    hidden: Vec<(u64, Refusal)>,
}

impl<'a> Planner<'a> {
    fn new(image: &'a Image, flow: &'a Flow, body: &'a Body, exits: bool) -> Self {
        let leaving = |index| Some((index, leaving::of(image, body, index)?));
        let all = if exits { body.instructions.len() } else { 0 };
        Planner {
            ground: Ground { image, flow, body },
            grain: Grain::Function,
            leavings: (0..all).filter_map(leaving).collect(),
            spans: Spans::default(),
            short: Spans::default(),
            detours: Spans::default(),
            fallback: None,
            redirects: Vec::new(),
            hidden: Vec::new(),
        }
    }

    fn start(&self, span: &Span) -> u64 {
        self.ground.body.address(span.first)
    }

    fn bytes(&self, span: &Span) -> u64 {
        span.room - self.start(span)
    }

    /// Makes the function's first instruction that of a region.
    fn entry(&mut self) -> Result<(), Refusal> {
        let body = self.ground.body;
        let all = body.instructions.len();
        let small = body.range.end - body.range.start <= WHOLE || self.grain == Grain::Blocks;
        let whole = small.then(|| self.ground.close(0, all).ok()).flatten();
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
        let all = if short { &mut self.short } else { &mut self.spans };
        all.push(span);
        Ok(())
    }

    /// The part of a region before the call at its end, if there is room for a short jump: a call that is
    /// moved costs ten times as much as an island, because processors do not foresee its return.
    fn before_call(&self, span: &Span) -> Option<Span> {
        let body = self.ground.body;
        // Heads of blocks may need the room that the call would have to fall back on.
        let is_plain = self.grain == Grain::Function;
        if span.end < 2 || !is_plain || !is_call(&body.instructions[span.end - 1]) {
            return None;
        }
        let before = self.ground.close(0, span.end - 1).ok()?;
        (before.end < span.end && self.bytes(&before) >= SHORT_BYTES).then_some(before)
    }

    /// The smallest region at the entry with room for some bytes.
    fn first_span(&self, least: u64) -> Result<Span, Refusal> {
        let mut end = self.ground.body.go.check.max(1);
        while end <= self.ground.body.instructions.len() {
            let span = self.ground.close(0, end)?;
            if self.bytes(&span) >= least {
                return Ok(span);
            }
            end = span.end + 1;
        }
        Err(Refusal::TooShort)
    }
}
