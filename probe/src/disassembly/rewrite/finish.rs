//! What was planned for a function to what is changed, islands included.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::Instruction;

use super::super::JUMP_BYTES;
use super::super::islands::{FAR, island_near};
use super::super::region::Span;
use super::{Jump, Planner, Region, Rewrite};

impl Planner<'_> {
    /// Finds islands, and says what is changed, and what is free then.
    pub(super) fn finish(mut self, rewrite: &mut Rewrite) -> Vec<Range<u64>> {
        let mut free = self.free();
        let islands = free.clone();
        let mut short = Vec::new();
        let all: Vec<Span> = self.short.iter().copied().collect();
        for span in all {
            let start = self.start(&span);
            let island = island_near(&mut free, start).or_else(|| {
                let more = self.make_room(start, &islands)?;
                let place = free.partition_point(|other| other.start < more.start);
                free.insert(place, more);
                island_near(&mut free, start)
            });
            short.push((span, island.map_or(Jump::Missing, Jump::Island)));
        }
        let near = self.spans.iter().map(|span| (*span, Jump::Near));
        let all: Vec<_> = near.chain(short).map(|(span, jump)| self.region(&span, jump)).collect();
        let moved = all.iter().flat_map(|region| &region.instructions).map(Instruction::ip);
        let moved: HashSet<u64> = moved.collect();
        rewrite.regions.extend(all);
        rewrite.regions.sort_by_key(|region| !region.entry);
        rewrite.fallback =
            self.fallback.map(|span| self.region(&span, Jump::Near)).or(rewrite.fallback.take());
        let detours = self.detours.iter().map(|span| self.region(span, Jump::Near));
        rewrite.detours.extend(detours);
        let stays = |instruction: &Instruction| !moved.contains(&instruction.ip());
        let redirects: Vec<_> = self.redirects.into_iter().filter(stays).collect();
        rewrite.redirects.extend(redirects);
        rewrite.hidden.extend(self.hidden);
        free
    }

    /// Whether a region begins with the function's first instruction.
    pub(super) fn is_entry(&self, span: &Span) -> bool {
        let body = self.ground.body;
        span.first == 0 && body.range.start == body.function.start
    }

    /// Bytes that nothing needs once the regions have moved.
    pub(super) fn free(&self) -> Vec<Range<u64>> {
        let behind = |span: &Span| self.start(span) + JUMP_BYTES as u64..span.room;
        let mut free: Vec<Range<u64>> = self.spans.iter().map(behind).collect();
        let body = self.ground.body;
        // Padding behind the function, if its last instructions stay.
        let all = body.instructions.len();
        if let Ok(span) = self.ground.close(all - 1, all)
            && !self.spans.has(all - 1)
            && !self.short.has(all - 1)
        {
            free.push(body.range.end..span.room);
        }
        free
    }

    /// Moves instructions that need not be, so that bytes are free within reach of an address.
    /// `islands`: what is free already.
    pub(super) fn make_room(&mut self, at: u64, islands: &[Range<u64>]) -> Option<Range<u64>> {
        let (body, first, last) = (self.ground.body, at.saturating_sub(FAR), at + FAR);
        let taken = self.spans.within(body, first, last);
        let taken = taken.chain(self.short.within(body, first, last));
        let taken = taken.map(|span| self.start(span)..span.room);
        let near = |address| islands.partition_point(|other| other.start < address);
        let islands = islands[near(first)..near(last)].iter().cloned();
        let taken: Vec<_> = taken.chain(islands).collect();
        let span = self.ground.spare(at, &taken)?;
        self.spans.push(span);
        Some(self.start(&span) + JUMP_BYTES as u64..span.room)
    }

    pub(super) fn region(&self, span: &Span, jump: Jump) -> Region {
        let body = self.ground.body;
        let place = |index| self.leavings.partition_point(|(other, _)| *other < index);
        let leavings = self.leavings[place(span.first)..place(span.end)].iter();
        Region {
            instructions: body.instructions[span.first..span.end].to_vec(),
            entry: self.is_entry(span),
            leavings: leavings.map(|(index, how)| (index - span.first, *how)).collect(),
            room: span.room,
            jump,
        }
    }
}
