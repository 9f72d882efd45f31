//! Ways out of a function to the regions, detours and redirected jumps that let them be seen.

use super::super::leaving::Leaving;
use super::super::region::Span;
use super::super::{JUMP_BYTES, Refusal, goes_on};
use super::{AROUND, LONG, Planner, SHORT_BYTES};

impl Planner<'_> {
    /// Sees to it that all ways out are in regions, or redirected.
    pub(super) fn exits(&mut self) {
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

    pub(super) fn is_covered(&self, index: usize) -> bool {
        let holds = |span: &Span| (span.first..span.end).contains(&index);
        self.spans.iter().chain(&self.short).chain(&self.detours).any(holds)
    }

    /// Spans that may hold an instruction, the smaller ones first.
    pub(super) fn candidates(&self, index: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let all = self.ground.body.instructions.len();
        let before = (0..=AROUND.min(index)).map(move |more| (index - more, index + 1));
        let behind = (2..=AROUND).map(move |more| (index, (index + more).min(all)));
        before.chain(behind)
    }

    /// Makes an instruction part of a region.
    pub(super) fn around(&mut self, index: usize) -> bool {
        self.candidates(index).any(|(first, end)| self.take(first, end, JUMP_BYTES as u64))
    }

    /// Adds a region, with those that it overlaps in one.
    pub(super) fn take(&mut self, first: usize, end: usize, least: u64) -> bool {
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
        let is_long = |branch: &usize| ground.body.instructions[*branch].len() >= JUMP_BYTES;
        if !branches.iter().all(|one| is_long(one) || self.is_covered(*one) || self.around(*one)) {
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
}
