//! A function to what must be changed so that every way in and every way out can be seen.
//!
//! Regions are moved to stubs. Where one of a jump's five bytes has no room, a jump of two leads to an
//! island: five bytes that are free once other instructions have moved. Jumps to other functions that have
//! room for any distance are redirected where they stand.

use std::ops::Range;

use iced_x86::Instruction;

use super::body::Body;
use super::flow::Flow;
use super::islands::island;
use super::leaving::{self, Leaving};
use super::region::{Ground, Span};
use super::{JUMP_BYTES, Refusal, is_call};
use crate::elf::{Function, Image};

/// `jmp rel8`.
pub const SHORT_BYTES: u64 = 2;
/// Small functions are moved whole if they can be: one jump instead of one in and one out.
const WHOLE: u64 = 96;
/// How far a region around a place may reach, in instructions.
const AROUND: usize = 8;
/// Bytes of a jump, and of a conditional one, to anywhere.
const LONG: Range<usize> = 5..7;

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
    /// Branches that get another target: to other functions, to the function's own entry, to detours.
    pub redirects: Vec<Instruction>,
    /// Ways out that cannot be seen.
    pub hidden: Vec<(u64, Refusal)>,
}

/// Finds out what to change in a function, and in its parts that lie apart, and which bytes nothing needs
/// then. `exits`: whether ways out matter.
///
/// # Errors
/// [`Refusal`]: why its entry cannot be seen.
pub(super) fn of(
    image: &Image,
    flow: &Flow,
    function: &Function,
    parts: &[Range<u64>],
    exits: bool,
) -> Result<(Rewrite, Vec<Range<u64>>), Refusal> {
    let range = function.start..function.start + function.size;
    let mut rewrite = Rewrite::default();
    let body = Body::read(image, range.clone(), range.clone())?;
    let mut planner = Planner::new(image, flow, &body, exits);
    planner.entry()?;
    planner.exits();
    let mut free = planner.finish(&mut rewrite);
    for part in parts.iter().filter(|_| exits) {
        match Body::read(image, part.clone(), range.clone()) {
            Ok(body) => {
                let mut planner = Planner::new(image, flow, &body, exits);
                planner.exits();
                free.extend(planner.finish(&mut rewrite));
            }
            Err(refusal) => rewrite.hidden.push((part.start, refusal)),
        }
    }
    Ok((rewrite, free))
}

struct Planner<'a> {
    ground: Ground<'a>,
    leavings: Vec<(usize, Leaving)>,
    spans: Vec<Span>,
    /// Those with room for a jump of two bytes only.
    short: Vec<Span>,
    /// Those that are not arrived at.
    detours: Vec<Span>,
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
            leavings: (0..all).filter_map(leaving).collect(),
            spans: Vec::new(),
            short: Vec::new(),
            detours: Vec::new(),
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
        let small = body.range.end - body.range.start <= WHOLE;
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
        let (span, apart) = self.with_loops(span);
        let all = if short { &mut self.short } else { &mut self.spans };
        all.push(span);
        let mut apart = apart.into_iter();
        let covered = apart.all(|branch| self.is_covered(branch) || self.around(branch));
        if covered { Ok(()) } else { Err(Refusal::Loop) }
    }

    /// The part of a region before the call at its end, if there is room for a short jump: a call that is
    /// moved costs ten times as much as an island, because processors do not foresee its return.
    fn before_call(&self, span: &Span) -> Option<Span> {
        let body = self.ground.body;
        // Branches to the entry would have to be looked after for both.
        let is_plain = body.branches_to(body.range.start).is_empty();
        if span.end < 2 || !is_plain || !is_call(&body.instructions[span.end - 1]) {
            return None;
        }
        let before = self.ground.close(0, span.end - 1).ok()?;
        (before.end < span.end && self.bytes(&before) >= SHORT_BYTES).then_some(before)
    }

    /// The smallest region at the entry with room for some bytes.
    fn first_span(&self, least: u64) -> Result<Span, Refusal> {
        let mut end = 1;
        while end <= self.ground.body.instructions.len() {
            let span = self.ground.close(0, end)?;
            if self.bytes(&span) >= least {
                return Ok(span);
            }
            end = span.end + 1;
        }
        Err(Refusal::TooShort)
    }

    /// Sees to it that branches to the entry are not taken for calls: they are in its region, or redirected.
    /// The rest comes back, to be in regions of their own.
    fn with_loops(&mut self, mut span: Span) -> (Span, Vec<usize>) {
        let body = self.ground.body;
        let mut apart = Vec::new();
        loop {
            let outside = |index: &&usize| **index >= span.end;
            let long = |index: &usize| LONG.contains(&body.instructions[*index].len());
            let branches = body.branches_to(body.range.start).iter().filter(outside);
            let mut short = branches.clone().filter(|index| !long(index));
            let Some(near) = short.find(|index| !apart.contains(*index)) else {
                let long = branches.filter(|index| long(index));
                self.redirects.extend(long.map(|index| body.instructions[*index]));
                return (span, apart);
            };
            match self.ground.close(0, near + 1) {
                Ok(whole) => span = whole,
                Err(_) => apart.push(*near),
            }
        }
    }

    /// Sees to it that all ways out are in regions, or redirected.
    fn exits(&mut self) {
        let body = self.ground.body;
        let mut tight = Vec::new();
        for (index, leaving) in self.leavings.clone() {
            let instruction = &body.instructions[index];
            let long = LONG.contains(&instruction.len());
            if self.is_covered(index) || matches!(leaving, Leaving::Jump(_)) && long {
                continue;
            }
            if !self.around(index) {
                tight.push(index);
            }
        }
        for index in tight {
            if !self.is_covered(index) && !self.detour(index) && !self.squeeze(index) {
                self.hidden.push((body.address(index), Refusal::TooShort));
            }
        }
        for (index, leaving) in self.leavings.clone() {
            if matches!(leaving, Leaving::Jump(_)) && !self.is_covered(index) {
                let instruction = body.instructions[index];
                if LONG.contains(&instruction.len()) {
                    self.redirects.push(instruction);
                }
            }
        }
    }

    fn is_covered(&self, index: usize) -> bool {
        let holds = |span: &Span| (span.first..span.end).contains(&index);
        self.spans.iter().chain(&self.short).chain(&self.detours).any(holds)
    }

    /// Spans that may hold an instruction, the smaller ones first.
    fn candidates(&self, index: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let all = self.ground.body.instructions.len();
        let before = (0..=AROUND.min(index)).map(move |more| (index - more, index + 1));
        let behind = (2..=AROUND).map(move |more| (index, (index + more).min(all)));
        before.chain(behind)
    }

    /// Makes an instruction part of a region.
    fn around(&mut self, index: usize) -> bool {
        self.candidates(index).any(|(first, end)| self.take(first, end, JUMP_BYTES as u64))
    }

    /// Adds a region, with those that it overlaps in one.
    fn take(&mut self, first: usize, end: usize, least: u64) -> bool {
        let Ok(mut span) = self.ground.close(first, end) else { return false };
        loop {
            let (start, room) = (self.start(&span), span.room.max(self.start(&span) + least));
            let overlaps = |other: &&Span| self.start(other) < room && start < other.room;
            if self.short.iter().any(|other| overlaps(&other)) {
                return false;
            }
            let others = self.spans.iter().filter(overlaps);
            let join = |(first, end): (usize, usize), other: &Span| {
                (first.min(other.first), end.max(other.end))
            };
            let joined = others.fold((span.first, span.end), join);
            if joined == (span.first, span.end) {
                break;
            }
            match self.ground.close(joined.0, joined.1) {
                Ok(closed) => span = closed,
                Err(_) => return false,
            }
        }
        if self.bytes(&span) < least {
            return false;
        }
        let (first, end) = (span.first, span.end);
        self.spans.retain(|other| other.end <= first || end <= other.first);
        self.spans.push(span);
        true
    }

    /// Leads all branches to an instruction to a copy of it, if nothing else arrives there.
    fn detour(&mut self, index: usize) -> bool {
        let ground = self.ground;
        let address = ground.body.address(index);
        let branches = ground.body.branches_to(address);
        let Ok(span) = ground.close(index, index + 1) else { return false };
        if ground.flow.is_fixed(address) || !ground.is_dead(index) || branches.is_empty() {
            return false;
        }
        let is_long = |branch: &usize| ground.body.instructions[*branch].len() >= JUMP_BYTES;
        if !branches.iter().all(|one| is_long(one) || self.is_covered(*one) || self.around(*one)) {
            return false;
        }
        let stay = branches.iter().filter(|one| !self.is_covered(**one));
        let stay: Vec<_> = stay.map(|branch| ground.body.instructions[*branch]).collect();
        self.redirects.extend(stay);
        self.detours.push(span);
        true
    }

    /// Makes an instruction part of a region with room for two bytes only.
    fn squeeze(&mut self, index: usize) -> bool {
        for (first, end) in self.candidates(index) {
            let Ok(span) = self.ground.close(first, end) else { continue };
            let (start, room) = (self.start(&span), span.room);
            let free = |other: &Span| room <= self.start(other) || other.room <= start;
            if room - start >= SHORT_BYTES && self.spans.iter().chain(&self.short).all(free) {
                self.short.push(span);
                return true;
            }
        }
        false
    }

    /// Finds islands, and says what is changed, and what is free then.
    fn finish(mut self, rewrite: &mut Rewrite) -> Vec<Range<u64>> {
        let mut free = self.free();
        let islands = free.clone();
        let mut short = Vec::new();
        for span in std::mem::take(&mut self.short) {
            let start = self.start(&span);
            let island = island(&mut free, start).or_else(|| {
                free.push(self.make_room(start, &islands)?);
                island(&mut free, start)
            });
            short.push((span, island.map_or(Jump::Missing, Jump::Island)));
        }
        let near = self.spans.iter().map(|span| (*span, Jump::Near));
        let all: Vec<_> = near.chain(short).map(|(span, jump)| self.region(&span, jump)).collect();
        rewrite.regions.extend(all);
        rewrite.regions.sort_by_key(|region| !region.entry);
        rewrite.fallback =
            self.fallback.map(|span| self.region(&span, Jump::Near)).or(rewrite.fallback.take());
        let detours = self.detours.iter().map(|span| self.region(span, Jump::Near));
        rewrite.detours.extend(detours);
        let stays = |instruction: &Instruction| {
            let same = |other: &Instruction| other.ip() == instruction.ip();
            let holds = |region: &Region| region.instructions.iter().any(same);
            !rewrite.regions.iter().any(holds)
        };
        let redirects: Vec<_> = self.redirects.into_iter().filter(stays).collect();
        rewrite.redirects.extend(redirects);
        rewrite.hidden.extend(self.hidden);
        free
    }

    /// Whether a region begins with the function's first instruction.
    fn is_entry(&self, span: &Span) -> bool {
        let body = self.ground.body;
        span.first == 0 && body.range.start == body.function.start
    }

    /// Bytes that nothing needs once the regions have moved.
    fn free(&self) -> Vec<Range<u64>> {
        let behind = |span: &Span| self.start(span) + JUMP_BYTES as u64..span.room;
        let mut free: Vec<Range<u64>> = self.spans.iter().map(behind).collect();
        let body = self.ground.body;
        // Padding behind the function, if its last instructions stay.
        let all = body.instructions.len();
        if let Ok(span) = self.ground.close(all - 1, all)
            && !self.spans.iter().chain(&self.short).any(|other| other.end == all)
        {
            free.push(body.range.end..span.room);
        }
        free
    }

    /// Moves instructions that need not be, so that bytes are free within reach of an address.
    /// `islands`: what is free already.
    fn make_room(&mut self, at: u64, islands: &[Range<u64>]) -> Option<Range<u64>> {
        let taken = self.spans.iter().chain(&self.short);
        let taken = taken.map(|span| self.start(span)..span.room);
        let taken: Vec<_> = taken.chain(islands.iter().cloned()).collect();
        let span = self.ground.spare(at, &taken)?;
        self.spans.push(span);
        Some(self.start(&span) + JUMP_BYTES as u64..span.room)
    }

    fn region(&self, span: &Span, jump: Jump) -> Region {
        let body = self.ground.body;
        let inside = |(index, _): &&(usize, Leaving)| (span.first..span.end).contains(index);
        let leavings = self.leavings.iter().filter(inside);
        Region {
            instructions: body.instructions[span.first..span.end].to_vec(),
            entry: self.is_entry(span),
            leavings: leavings.map(|(index, how)| (index - span.first, *how)).collect(),
            room: span.room,
            jump,
        }
    }
}
