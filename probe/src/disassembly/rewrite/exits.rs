//! Covers exit sites with regions, detours and redirected jumps.

use super::super::exit_site::ExitKind;
use super::super::region::Span;
use super::super::{JUMP_BYTES, Refusal, falls_through};
use super::spans::Spans;
use super::{AROUND, Planner, SHORT_BYTES};

impl Planner<'_> {
    /// Puts all exit sites into regions or detours, or redirects them. The remaining ones are
    /// listed as hidden.
    pub(super) fn plan_exits(&mut self) {
        let body = self.finder.body;
        let mut uncovered = Vec::new();
        for (index, exit_site) in self.exit_sites.clone() {
            let is_jump = matches!(exit_site, ExitKind::Jump(_));
            if self.is_covered(index) || is_jump && self.can_be_redirected(index) {
                continue;
            }
            if !self.cover(index) {
                uncovered.push(index);
            }
        }
        for index in uncovered {
            if !self.is_covered(index) && !self.add_detour(index) && !self.cover_short(index) {
                self.hidden.push((body.address(index), Refusal::TooShort));
            }
        }
        for (index, exit_site) in self.exit_sites.clone() {
            let is_jump = matches!(exit_site, ExitKind::Jump(_));
            if is_jump && !self.is_covered(index) && self.can_be_redirected(index) {
                self.redirects.push(body.instructions[index]);
            }
        }
    }

    /// Whether a branch can get another target in place: its encoding reaches any distance, and
    /// control does not arrive in the middle of its bytes.
    fn can_be_redirected(&self, index: usize) -> bool {
        let instruction = &self.finder.body.instructions[index];
        // The length is not enough to decide: with prefixes, a short branch may be as long as a
        // near one.
        let has_long_encoding = instruction.is_jmp_near() || instruction.is_jcc_near();
        has_long_encoding && self.finder.target_within(instruction).is_none()
    }

    /// Whether an instruction is in a region or a detour.
    pub(super) fn is_covered(&self, index: usize) -> bool {
        [&self.spans, &self.short, &self.detours].into_iter().any(|spans| spans.has(index))
    }

    /// Regions that contain an instruction, smaller ones first. If a region cannot be closed,
    /// larger regions are not tried, because they cannot be closed either.
    fn candidates(&self, index: usize) -> impl Iterator<Item = Span> + use<'_> {
        let count = self.finder.body.instructions.len();
        let before = (0..=AROUND.min(index)).map(move |more| (index - more, index + 1));
        let after = (2..=AROUND).map(move |more| (index, (index + more).min(count)));
        let finder = self.finder;
        let close = move |(first, end)| finder.close(first, end).ok();
        before.map_while(close).chain(after.map_while(close))
    }

    /// Plans a region that contains an instruction and has space for a five-byte jump. Returns
    /// whether there is one.
    pub(super) fn cover(&mut self, index: usize) -> bool {
        let candidates: Vec<Span> = self.candidates(index).collect();
        candidates.into_iter().any(|span| self.add_span(span, JUMP_BYTES as u64))
    }

    /// Adds a region, merged with the regions that it overlaps. Returns `false`, and adds nothing,
    /// if the merged region has fewer than `least` bytes or cannot be closed.
    pub(super) fn add_span(&mut self, mut span: Span, least: u64) -> bool {
        loop {
            let (start, limit) = (self.start(&span), span.limit.max(self.start(&span) + least));
            let body = self.finder.body;
            if self.short.within(body, start, limit).next().is_some() {
                return false;
            }
            let others = self.spans.within(body, start, limit);
            let join = |(first, end): (usize, usize), other: &Span| {
                (first.min(other.first), end.max(other.end))
            };
            let joined = others.fold((span.first, span.end), join);
            if joined == (span.first, span.end) {
                break;
            }
            match self.finder.close(joined.0, joined.1) {
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

    /// Redirects all branches that lead to an instruction to a copy of the instruction. Returns
    /// `false` if control may arrive at the instruction in another way, or if a branch cannot be
    /// redirected.
    pub(super) fn add_detour(&mut self, index: usize) -> bool {
        let finder = self.finder;
        let address = finder.body.address(index);
        let branches = finder.body.branches_to(address);
        let Ok(span) = finder.close(index, index + 1) else { return false };
        // The code behind the instruction may be moved too, so a copy could not continue there.
        if falls_through(&finder.body.instructions[index]) {
            return false;
        }
        if finder.code_index.is_external_target(address)
            || !finder.is_dead(index)
            || branches.is_empty()
        {
            return false;
        }
        let can_stay = |it: &Self, one| it.can_be_redirected(one) || it.is_covered(one);
        if !branches.iter().all(|branch| can_stay(self, *branch) || self.cover(*branch)) {
            return false;
        }
        if self.is_covered(index) {
            return true;
        }
        let in_place = branches.iter().filter(|branch| !self.is_covered(**branch));
        let in_place: Vec<_> = in_place.map(|branch| finder.body.instructions[*branch]).collect();
        self.redirects.extend(in_place);
        self.detours.push(span);
        true
    }

    /// Plans a region that contains an instruction and has space for a two-byte jump. Returns
    /// whether there is one.
    pub(super) fn cover_short(&mut self, index: usize) -> bool {
        let fits = |span: &Span| {
            let (start, limit) = (self.start(span), span.limit);
            let body = self.finder.body;
            let free = |spans: &Spans| spans.within(body, start, limit).next().is_none();
            limit - start >= SHORT_BYTES && free(&self.spans) && free(&self.short)
        };
        let span = self.candidates(index).find(fits);
        self.short.extend(span);
        span.is_some()
    }
}
