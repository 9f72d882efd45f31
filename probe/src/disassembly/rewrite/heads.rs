//! Heads of blocks to the regions and detours that let them be seen.

use super::super::blocks::Block;
use super::super::{JUMP_BYTES, Refusal, branch_target};
use super::{AROUND, Planner};

impl Planner<'_> {
    /// Sees to it that as many heads as can be are in regions. Where one cannot, it is said why: as far as it
    /// is known yet.
    pub(super) fn heads(&mut self, blocks: &mut [Block]) {
        let body = self.ground.body;
        let mut tight = Vec::new();
        for (number, block) in blocks.iter().enumerate().filter(|(_, it)| it.refusal.is_none()) {
            let Some(index) = body.index_of(block.start) else { continue };
            if !self.is_covered(index) && !self.from(index) && !self.around(index) {
                tight.push((number, index));
            }
        }
        for (number, index) in tight {
            // A branch would lead to what is another's entry or detour, and past that one's copy.
            let is_plain = branch_target(&body.instructions[index]).is_none();
            let is_seen =
                self.is_covered(index) || is_plain && self.detour(index) || self.squeeze(index);
            if !is_seen {
                blocks[number].refusal = Some(self.reason(index));
            }
        }
    }

    /// Makes an instruction the first one of a region: what comes before may be moved for another head.
    fn from(&mut self, index: usize) -> bool {
        let ground = self.ground;
        let ends = index + 1..=(index + AROUND).min(ground.body.instructions.len());
        let mut spans = ends.map_while(|end| ground.close(index, end).ok());
        spans.any(|span| self.take(span, JUMP_BYTES as u64))
    }

    /// Why an instruction is in no region.
    fn reason(&self, index: usize) -> Refusal {
        let all = self.ground.body.instructions.len();
        let mut ends = index + 1..=(index + AROUND).min(all);
        let failed = ends.find_map(|end| match self.ground.close(index, end) {
            Ok(span) if self.bytes(&span) >= JUMP_BYTES as u64 => Some(Refusal::TooShort),
            Ok(_) => None,
            Err(refusal) => Some(refusal),
        });
        failed.unwrap_or(Refusal::TooShort)
    }
}
