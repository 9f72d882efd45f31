//! Passes on executions of blocks and paths that are in the region, and the parts of executions at
//! its borders.

use std::ops::Range;

use hmtt_files::access_trace::{BlockAccesses, CUT, FS_BASE, NOT_BEGUN, Place, note, parse_note};

use super::{CutUnits, Number, RegionCutter, Word};

/// An execution of a block or path.
pub(super) struct Execution<'u> {
    pub(super) number: u32,
    pub(super) slots: &'u [Word],
    /// Number of its instructions that were executed.
    executed: u64,
    /// Whether a note states this number.
    is_cut: bool,
}

impl Execution<'_> {
    /// The values of the slots.
    fn values(&self) -> Vec<u64> {
        self.slots.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }
}

impl RegionCutter {
    /// Parses an execution. `word`: its number. `words`: the units behind the number, which begin
    /// with its slots. `None` if the number is not known or slots are missing.
    pub(super) fn execution<'u>(&self, word: u64, words: &'u [Word]) -> Option<Execution<'u>> {
        let number = u32::try_from(word).ok()?;
        let index = number.checked_sub(1)? as usize;
        let Number { instructions, slots, .. } = *self.numbers.get(index)?;
        let slots = words.get(..slots.into())?;
        let next = words.get(slots.len()).map(|word| u64::from_le_bytes(*word) as u32);
        let next = next.and_then(parse_note);
        let cut = next.filter(|(kind, _)| *kind == CUT).map(|(_, executed)| executed);
        let executed =
            cut.map_or(instructions.into(), |cut| u64::from(cut).min(instructions.into()));
        Some(Execution { number, slots, executed, is_cut: cut.is_some() })
    }

    /// Counts an execution, and passes on the part of it that is in the region.
    pub(super) fn execute(
        &mut self,
        execution: &Execution<'_>,
        offset: &impl Fn(&BlockAccesses, u16) -> usize,
        cut: &mut CutUnits,
    ) {
        let begin = self.executed;
        let end = begin.saturating_add(execution.executed);
        let Range { start, end: limit } = self.region;
        if begin >= limit {
            self.next = Some(self.block(execution.number).start);
            return;
        }
        self.executed = end;
        if end > limit || end == limit && execution.is_cut && self.has_elements_at_end(execution) {
            self.next = self.address(execution.number, limit - begin, offset);
        }
        // A string instruction that was interrupted at the start of the region belongs to the
        // region: the other elements are accessed when the instruction is executed again.
        if end < start || end == start && !(execution.is_cut && self.has_elements_at_end(execution))
        {
            return;
        }
        let inside = end.min(limit) - begin.max(start);
        let from = start.saturating_sub(begin) as u16;
        let is_counted = self.counted.is_none_or(|counted| execution.number <= counted);
        let part = match (is_counted, from) {
            (true, _) => None,
            (false, 0) => Some(None),
            (false, _) => self.tail(execution, from, offset).map(Some),
        };
        let Some(tail) = part else {
            self.seen.counted_only = self.seen.counted_only.saturating_add(inside);
            return;
        };
        self.recorded += inside;
        if !self.has_begun {
            self.has_begun = true;
            push(&mut cut.units, &[note(FS_BASE, 0).into(), self.fs]);
        }
        let ends = end > limit || end == limit && execution.is_cut;
        if tail.is_none() && !ends {
            push(&mut cut.units, &[self.passed_number(execution.number).into()]);
            cut.units.extend(execution.slots.as_flattened());
            if execution.is_cut {
                push(&mut cut.units, &[note(CUT, execution.executed as u32).into()]);
            }
            return;
        }
        let last = if ends { limit.min(end) - begin } else { execution.executed };
        self.pass_part(execution, tail, last - u64::from(from), ends, cut);
    }

    /// The description of a number, which must be known.
    fn block(&self, number: u32) -> &BlockAccesses {
        &self.blocks[self.numbers[number as usize - 1].block as usize]
    }

    /// Whether the instruction at which the execution was cut has accessed some elements of a
    /// string.
    fn has_elements_at_end(&self, execution: &Execution<'_>) -> bool {
        let block = self.block(execution.number);
        block.accesses.iter().any(|access| {
            let Place::Elements { left: [before, after], .. } = access.place else { return false };
            let slot = |slot: u16| execution.slots.get(usize::from(slot));
            u64::from(access.operation) == execution.executed
                && slot(after) != Some(&NOT_BEGUN.to_le_bytes())
                && slot(before) != slot(after)
        })
    }

    /// Address of an instruction of a block or path, by its index. `None` if the instruction is in
    /// a part of a path that is no known block.
    fn address(
        &self,
        number: u32,
        index: u64,
        offset: &impl Fn(&BlockAccesses, u16) -> usize,
    ) -> Option<u64> {
        let block = self.block(number);
        let part = block.parts.iter().position(|part| index < part.instructions.into());
        let (block, first) = match part {
            None => (block, 0),
            Some(part) => {
                let first = part.checked_sub(1).map_or(0, |before| block.up_to(before).0);
                let number = block.parts[part].block.checked_sub(1)?;
                let number = self.numbers.get(number as usize)?;
                (self.blocks.get(number.block as usize)?, first)
            }
        };
        let index = u16::try_from(index).ok()?.checked_sub(first)?;
        Some(block.start.wrapping_add(offset(block, index) as u64))
    }

    /// Describes the instructions of an execution from index `from` on as a block, which gets the
    /// next number. Returns the slots of that block too. `None` for a path.
    fn tail(
        &mut self,
        execution: &Execution<'_>,
        from: u16,
        offset: &impl Fn(&BlockAccesses, u16) -> usize,
    ) -> Option<(BlockAccesses, Vec<u64>)> {
        let block = self.block(execution.number);
        let tail = block.tail(from, offset(block, from), &execution.values())?;
        self.tail = Some(self.numbers.len() as u32 - self.counted.unwrap_or(0) + 1);
        Some(tail)
    }

    /// Passes on the first `executed` instructions of an execution, or of its tail if there is one.
    /// `ends`: whether the region ends behind these instructions, so that the next instruction must
    /// have accessed nothing.
    fn pass_part(
        &self,
        execution: &Execution<'_>,
        tail: Option<(BlockAccesses, Vec<u64>)>,
        executed: u64,
        ends: bool,
        cut: &mut CutUnits,
    ) {
        let (tail, mut slots) = match tail {
            Some((tail, slots)) => (Some(tail), slots),
            None => (None, execution.values()),
        };
        let mut part = usize::from(self.numbers[execution.number as usize - 1].part);
        let block = tail.as_ref().unwrap_or_else(|| self.block(execution.number));
        let mut number = match &tail {
            Some(_) => self.tail.unwrap_or(0),
            None => self.passed_number(execution.number),
        };
        if ends {
            // If the path ends within one of its parts or at the end of a part, it is written with
            // the number of this part.
            let last = (0..part).find(|part| u64::from(block.up_to(*part).0) >= executed);
            let last = last.unwrap_or(part);
            number -= (part - last) as u32;
            part = last;
            slots.truncate(block.up_to(part).1.into());
            forget_elements(block, executed, &mut slots);
        }
        push(&mut cut.units, &[number.into()]);
        push(&mut cut.units, &slots);
        if executed < block.up_to(part).0.into() {
            push(&mut cut.units, &[note(CUT, executed as u32).into()]);
        }
        cut.tail = tail.or(cut.tail.take());
    }
}

/// Changes slots so that the instruction behind the executed ones has accessed no elements of a
/// string.
fn forget_elements(block: &BlockAccesses, executed: u64, slots: &mut [u64]) {
    for access in &block.accesses {
        if let Place::Elements { left: [_, after], .. } = access.place
            && u64::from(access.operation) == executed
            && let Some(slot) = slots.get_mut(usize::from(after))
        {
            *slot = NOT_BEGUN;
        }
    }
}

/// Appends words to units.
fn push(units: &mut Vec<u8>, words: &[u64]) {
    units.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
