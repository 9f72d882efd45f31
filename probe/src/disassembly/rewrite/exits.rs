//! Ways out of a function to the regions, detours and redirected jumps that let them be seen.

use super::super::leaving::Leaving;
use super::super::region::Span;
use super::super::{JUMP_BYTES, Refusal, goes_on};
use super::spans::Spans;
use super::{AROUND, Planner, SHORT_BYTES};

impl Planner<'_> {
    /// Sees to it that all ways out are in regions, or redirected.
    pub(super) fn exits(&mut self) {
        let body = self.ground.body;
        let mut tight = Vec::new();
        for (index, leaving) in self.leavings.clone() {
            let is_jump = matches!(leaving, Leaving::Jump(_));
            if self.is_covered(index) || is_jump && self.can_be_redirected(index) {
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
            let is_jump = matches!(leaving, Leaving::Jump(_));
            if is_jump && !self.is_covered(index) && self.can_be_redirected(index) {
                self.redirects.push(body.instructions[index]);
            }
        }
    }

    /// Whether a branch may get another target where it is: there is room for any, and nothing else reads it.
    fn can_be_redirected(&self, index: usize) -> bool {
        let instruction = &self.ground.body.instructions[index];
        // With prefixes, one that only reaches near may be as long.
        let has_room = instruction.is_jmp_near() || instruction.is_jcc_near();
        has_room && self.ground.arrival_within(instruction).is_none()
    }

    pub(super) fn is_covered(&self, index: usize) -> bool {
        [&self.spans, &self.short, &self.detours].into_iter().any(|spans| spans.has(index))
    }

    /// Spans that may hold an instruction, the smaller ones first. Where one is none, larger ones are none either.
    fn candidates(&self, index: usize) -> impl Iterator<Item = Span> + use<'_> {
        let all = self.ground.body.instructions.len();
        let before = (0..=AROUND.min(index)).map(move |more| (index - more, index + 1));
        let behind = (2..=AROUND).map(move |more| (index, (index + more).min(all)));
        let ground = self.ground;
        let close = move |(first, end)| ground.close(first, end).ok();
        before.map_while(close).chain(behind.map_while(close))
    }

    /// Makes an instruction part of a region.
    pub(super) fn around(&mut self, index: usize) -> bool {
        let candidates: Vec<Span> = self.candidates(index).collect();
        candidates.into_iter().any(|span| self.take(span, JUMP_BYTES as u64))
    }

    /// Adds a region, with those that it overlaps in one.
    pub(super) fn take(&mut self, mut span: Span, least: u64) -> bool {
        loop {
            let (start, room) = (self.start(&span), span.room.max(self.start(&span) + least));
            let body = self.ground.body;
            if self.short.within(body, start, room).next().is_some() {
                return false;
            }
            let others = self.spans.within(body, start, room);
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
        self.spans.remove(first, end);
        self.spans.push(span);
        true
    }

    /// Leads all branches to an instruction to a copy of it, if nothing else arrives there.
    pub(super) fn detour(&mut self, index: usize) -> bool {
        let ground = self.ground;
        let address = ground.body.address(index);
        let branches = ground.body.branches_to(address);
        let Ok(span) = ground.close(index, index + 1) else { return false };
        // What is behind it may be moved, now or later: a copy could not go on there.
        if goes_on(&ground.body.instructions[index]) {
            return false;
        }
        if ground.flow.is_fixed(address) || !ground.is_dead(index) || branches.is_empty() {
            return false;
        }
        let stays = |it: &Self, one| it.can_be_redirected(one) || it.is_covered(one);
        if !branches.iter().all(|one| stays(self, *one) || self.around(*one)) {
            return false;
        }
        if self.is_covered(index) {
            return true;
        }
        let stay = branches.iter().filter(|one| !self.is_covered(**one));
        let stay: Vec<_> = stay.map(|branch| ground.body.instructions[*branch]).collect();
        self.redirects.extend(stay);
        self.detours.push(span);
        true
    }

    /// Makes an instruction part of a region with room for two bytes only.
    pub(super) fn squeeze(&mut self, index: usize) -> bool {
        let fits = |span: &Span| {
            let (start, room) = (self.start(span), span.room);
            let body = self.ground.body;
            let free = |spans: &Spans| spans.within(body, start, room).next().is_none();
            room - start >= SHORT_BYTES && free(&self.spans) && free(&self.short)
        };
        let found = self.candidates(index).find(fits);
        self.short.extend(found);
        found.is_some()
    }
}
