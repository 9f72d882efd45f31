//! Covers the heads of blocks with regions and detours.

use super::super::blocks::Block;
use super::super::{JUMP_BYTES, Refusal, branch_target};
use super::{AROUND, Planner};

impl Planner<'_> {
    /// Puts as many block heads as possible into regions or detours. For each remaining head,
    /// records the reason.
    pub(super) fn plan_heads(&mut self, blocks: &mut [Block]) {
        let body = self.finder.body;
        let mut uncovered = Vec::new();
        for (number, block) in blocks.iter().enumerate().filter(|(_, it)| it.refusal.is_none()) {
            let Some(index) = body.index_of(block.start) else { continue };
            if !self.is_covered(index) && !self.start_at(index) && !self.cover(index) {
                uncovered.push((number, index));
            }
        }
        for (number, index) in uncovered {
            // A head that is a branch gets no detour: the branch would lead to the original head or
            // detour of another block, and bypass that block's copy.
            let is_plain = branch_target(&body.instructions[index]).is_none();
            let is_tagged = self.is_covered(index)
                || is_plain && self.add_detour(index)
                || self.cover_short(index);
            if !is_tagged {
                blocks[number].refusal = Some(self.reason(index));
            }
        }
    }

    /// Plans a region that begins with an instruction. The instructions before it may then be moved
    /// for another head. Returns whether there is such a region.
    fn start_at(&mut self, index: usize) -> bool {
        let finder = self.finder;
        let ends = index + 1..=(index + AROUND).min(finder.body.instructions.len());
        let mut spans = ends.map_while(|end| finder.close(index, end).ok());
        spans.any(|span| self.add_span(span, JUMP_BYTES as u64))
    }

    /// The reason why no region contains an instruction.
    fn reason(&self, index: usize) -> Refusal {
        let count = self.finder.body.instructions.len();
        let mut ends = index + 1..=(index + AROUND).min(count);
        let failed = ends.find_map(|end| match self.finder.close(index, end) {
            Ok(span) if self.bytes(&span) >= JUMP_BYTES as u64 => Some(Refusal::TooShort),
            Ok(_) => None,
            Err(refusal) => Some(refusal),
        });
        failed.unwrap_or(Refusal::TooShort)
    }
}
