//! Turns the plan for a body into changes, and allocates its islands.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::Instruction;

use super::super::JUMP_BYTES;
use super::super::islands::{FAR, island_near};
use super::super::region::Span;
use super::{Jump, Planner, Region, Rewrite};

impl Planner<'_> {
    /// Allocates islands and adds the body's changes to `rewrite`. Returns the ranges that become
    /// free.
    pub(super) fn finish(mut self, rewrite: &mut Rewrite) -> Vec<Range<u64>> {
        let mut free = self.free();
        let islands = free.clone();
        let mut short = Vec::new();
        let spans: Vec<Span> = self.short.iter().copied().collect();
        for span in spans {
            let start = self.start(&span);
            let island = island_near(&mut free, start).or_else(|| {
                let more = self.free_island_space(start, &islands)?;
                let place = free.partition_point(|other| other.start < more.start);
                free.insert(place, more);
                island_near(&mut free, start)
            });
            short.push((span, island.map_or(Jump::Missing, Jump::Island)));
        }
        let near = self.spans.iter().map(|span| (*span, Jump::Near));
        let regions: Vec<_> =
            near.chain(short).map(|(span, jump)| self.region(&span, jump)).collect();
        let moved = regions.iter().flat_map(|region| &region.instructions).map(Instruction::ip);
        let moved: HashSet<u64> = moved.collect();
        rewrite.regions.extend(regions);
        rewrite.regions.sort_by_key(|region| !region.entry);
        rewrite.fallback =
            self.fallback.map(|span| self.region(&span, Jump::Near)).or(rewrite.fallback.take());
        let detours = self.detours.iter().map(|span| self.region(span, Jump::Near));
        rewrite.detours.extend(detours);
        let is_in_place = |instruction: &Instruction| !moved.contains(&instruction.ip());
        let redirects: Vec<_> = self.redirects.into_iter().filter(is_in_place).collect();
        rewrite.redirects.extend(redirects);
        rewrite.hidden.extend(self.hidden);
        free
    }

    /// Whether a span begins with the function's first instruction.
    pub(super) fn is_entry(&self, span: &Span) -> bool {
        let body = self.finder.body;
        span.first == 0 && body.range.start == body.function.start
    }

    /// Address ranges that are unused after the regions were moved.
    pub(super) fn free(&self) -> Vec<Range<u64>> {
        let rest = |span: &Span| self.start(span) + JUMP_BYTES as u64..span.limit;
        let mut free: Vec<Range<u64>> = self.spans.iter().map(rest).collect();
        let body = self.finder.body;
        // Padding behind the function is free if the function's last instructions stay in place.
        let count = body.instructions.len();
        if let Ok(span) = self.finder.close(count - 1, count)
            && !self.spans.has(count - 1)
            && !self.short.has(count - 1)
        {
            free.push(body.range.end..span.limit);
        }
        free
    }

    /// Moves instructions that would otherwise stay, so that bytes within reach of an address
    /// become free. Returns these bytes. `islands`: ranges that are already free.
    pub(super) fn free_island_space(
        &mut self,
        at: u64,
        islands: &[Range<u64>],
    ) -> Option<Range<u64>> {
        let (body, first, last) = (self.finder.body, at.saturating_sub(FAR), at + FAR);
        let obstacles = self.spans.within(body, first, last);
        let obstacles = obstacles.chain(self.short.within(body, first, last));
        let obstacles = obstacles.map(|span| self.start(span)..span.limit);
        let near = |address| islands.partition_point(|other| other.start < address);
        let islands = islands[near(first)..near(last)].iter().cloned();
        let obstacles: Vec<_> = obstacles.chain(islands).collect();
        let span = self.finder.find_movable(at, &obstacles)?;
        self.spans.push(span);
        Some(self.start(&span) + JUMP_BYTES as u64..span.limit)
    }

    /// Makes the region for a span.
    pub(super) fn region(&self, span: &Span, jump: Jump) -> Region {
        let body = self.finder.body;
        let place = |index| self.exit_sites.partition_point(|(other, _)| *other < index);
        let exit_sites = self.exit_sites[place(span.first)..place(span.end)].iter();
        Region {
            instructions: body.instructions[span.first..span.end].to_vec(),
            entry: self.is_entry(span),
            exit_sites: exit_sites.map(|(index, how)| (index - span.first, *how)).collect(),
            limit: span.limit,
            jump,
        }
    }
}
