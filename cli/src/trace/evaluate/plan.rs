//! Finds what each setting records of a block.
//!
//! The block is decoded from its code in the file. Its accesses must be the accesses that the file
//! describes; a full trace has them in program order. Otherwise the block has no plan.

use std::collections::HashMap;

use hmtt_files::access_trace::{Accuracy, BlockAccesses};
use hmtt_probe::address::RunAddr;
use hmtt_translator::block::Block;
use hmtt_translator::recorded::Chosen;
use hmtt_translator::selection::{
    self, Access, Chunk, Coverage, Equality, Representative, Selection, Selector,
};

use super::settings::Settings;

/// A comparison of an access that is not recorded with recorded accesses that probably touch the
/// same chunk. Example: of `mov rax, [rdi]` and `mov rcx, [rdi+8]` only the first is recorded; in
/// chunks of 16 bytes the second probably touches the same chunk.
#[derive(Debug)]
pub struct Check {
    /// Size of the chunks in bytes.
    pub chunk: Chunk,
    /// Place in the block of the access that is not recorded.
    pub access: u16,
    /// Places of the recorded accesses whose address expressions have the distance zero, in chunks,
    /// from the expression of `access`.
    pub recorded: Vec<u16>,
    /// The settings that record the accesses `recorded` and not `access`.
    pub settings: Vec<u16>,
    /// Executions in which the access and at least one of the recorded accesses were made.
    pub checked: u64,
    /// Executions among `checked` in which none of the recorded accesses touched the chunk of the
    /// access.
    pub different: u64,
}

/// The accesses that each setting records of a block.
#[derive(Debug)]
pub struct Plan {
    /// For each setting, counts of the accesses that it records in one execution.
    pub accuracies: Vec<Accuracy>,
    /// The comparisons that are made in each execution.
    pub checks: Vec<Check>,
    /// For each access, the settings that record it.
    pub recorded_by: Vec<Vec<u16>>,
}

/// Indices of the checks of a block, by chunk size, access and recorded accesses. Most settings
/// share checks, because they differ little.
type Known = HashMap<(Chunk, u16, Vec<u16>), usize>;

impl Plan {
    /// Decodes a block, and finds what the settings record of it. Returns `None` if the code does
    /// not have the described accesses.
    pub fn new(described: &BlockAccesses, settings: &Settings) -> Option<Self> {
        let block = decoded(described)?;
        let accesses = selection::accesses(&block, Equality::Values);
        let is_same = |(access, described): (&Access, &hmtt_files::access_trace::Access)| {
            let operation = block.operations.get(access.operation);
            access.operation == usize::from(described.operation)
                && operation.is_some_and(|one| one.instruction.ip() == described.pc)
                && access.direction == described.direction
                // Older traces state the size of all elements together.
                && (access.size == described.size || access.lanes.is_some())
        };
        let has_all = accesses.len() == described.accesses.len();
        if !has_all || !accesses.iter().zip(&described.accesses).all(is_same) {
            return None;
        }
        let recorded_by = vec![Vec::new(); accesses.len()];
        let mut plan = Plan { accuracies: Vec::new(), checks: Vec::new(), recorded_by };
        let mut known = Known::new();
        for (choice, setting) in settings.choices().zip(0..) {
            let chosen = Chosen::of(std::slice::from_ref(&block), &accesses, &choice);
            plan.accuracies.push(chosen.selection.accuracy());
            for place in chosen.places() {
                plan.recorded_by[place].push(setting);
            }
            if let Selector::Representatives { chunk, .. } = choice.selector {
                plan.add_checks(&chosen, chunk, setting, &mut known);
            }
        }
        Some(plan)
    }

    /// Approximate size of the plan, in numbers.
    pub fn size(&self) -> usize {
        let checks =
            self.checks.iter().map(|check| 8 + check.recorded.len() + check.settings.len());
        let recorded_by = self.recorded_by.iter().map(|by| 4 + by.len());
        4 * self.accuracies.len() + checks.sum::<usize>() + recorded_by.sum::<usize>()
    }

    /// Adds the checks of a setting. `known`: checks that earlier settings need as well.
    fn add_checks(&mut self, chosen: &Chosen, chunk: Chunk, setting: u16, known: &mut Known) {
        let Chosen { meant, selection } = chosen;
        let place = |index: usize| meant[index] as u16;
        for (index, class) in selection.represented_by.iter().enumerate() {
            let class = class.map(|class| &selection.representatives[class]);
            let Some(near) = class.filter(|class| matches!(class.coverage, Coverage::Near(_)))
            else {
                continue;
            };
            let recorded = at_distance_zero(selection, near, chunk).map(place).collect();
            let (checks, access) = (&mut self.checks, place(index));
            let number = *known.entry((chunk, access, recorded)).or_insert_with_key(|key| {
                let (recorded, settings) = (key.2.clone(), Vec::new());
                checks.push(Check { chunk, access, recorded, settings, checked: 0, different: 0 });
                checks.len() - 1
            });
            self.checks[number].settings.push(setting);
        }
    }
}

/// The recorded accesses whose address expressions have the distance zero from the class `near`,
/// which is not recorded.
fn at_distance_zero<'s>(
    selection: &'s Selection,
    near: &'s Representative,
    chunk: Chunk,
) -> impl Iterator<Item = usize> + 's {
    let is_recorded = |one: &&Representative| one.coverage == Coverage::Traced;
    let is_near =
        move |one: &&Representative| near.expression.distance(&one.expression, chunk) == Some(0);
    let representatives = selection.representatives.iter().filter(is_recorded).filter(is_near);
    representatives.map(|representative| representative.access)
}

/// Decodes a block from its code in the file. Returns `None` if the code is not the code of one
/// whole block.
fn decoded(described: &BlockAccesses) -> Option<Block> {
    let block = Block::from_bytes(RunAddr(described.start), &described.code).ok()?;
    let is_whole = block.bytes.len() == described.code.len()
        && block.operations.len() == usize::from(described.instructions);
    is_whole.then_some(block)
}

#[cfg(test)]
mod tests {
    use hmtt_translator::recorded::Recorded;

    use super::super::settings::Share;
    use super::*;

    /// Describes a block as the recorder does, with all accesses.
    fn described(code: &[u8]) -> BlockAccesses {
        let block = Block::from_bytes(RunAddr(0x1000), code).unwrap();
        let every = hmtt_translator::recorded::Choice::EVERY;
        let accesses = Recorded::new(std::slice::from_ref(&block), &every).accesses;
        BlockAccesses { code: block.bytes.into(), ..accesses }
    }

    fn settings(shares: &[&str], chunks: &[u64]) -> Settings {
        let shares: Vec<Share> = shares.iter().map(|share| share.parse().unwrap()).collect();
        let chunks: Vec<Chunk> = chunks.iter().map(|chunk| Chunk::new(*chunk).unwrap()).collect();
        Settings::new(&shares, &chunks, Equality::Values)
    }

    /// mov rax, [rdi]; mov rcx, [rdi+8]; mov rdx, [rdi+0x40]; mov [rdi], rcx; ret
    const CODE: &[u8] = b"\x48\x8b\x07\x48\x8b\x4f\x08\x48\x8b\x57\x40\x48\x89\x0f\xc3";

    #[test]
    fn a_plan_has_what_the_recorder_records() {
        let settings = settings(&["25%", "50%", "100%", "all"], &[16, 64]);
        let plan = Plan::new(&described(CODE), &settings).unwrap();
        assert_eq!((plan.accuracies.len(), plan.recorded_by.len()), (7, 5));
        let block = decoded(&described(CODE)).unwrap();
        for ((choice, accuracy), setting) in settings.choices().zip(&plan.accuracies).zip(0..) {
            let recorded = Recorded::new(std::slice::from_ref(&block), &choice).accesses;
            assert_eq!(*accuracy, recorded.accuracy(0..block.operations.len()));
            let by_plan = plan.recorded_by.iter().filter(|by| by.contains(&setting)).count();
            assert_eq!(by_plan, recorded.accesses.len());
        }
    }

    #[test]
    fn what_is_near_is_compared_with_what_is_recorded() {
        // Of four classes one is recorded: the class that has two accesses.
        let plan = Plan::new(&described(CODE), &settings(&["25%", "26%"], &[16])).unwrap();
        let checks: Vec<_> =
            plan.checks.iter().map(|check| (check.access, &check.recorded[..])).collect();
        assert_eq!(checks, [(1, &[0][..])]);
        assert_eq!(plan.checks[0].settings, [0, 1]);
    }

    #[test]
    fn other_code_has_no_plan() {
        let settings = settings(&["50%"], &[64]);
        let mut shorter = described(CODE);
        shorter.code.pop();
        let mut reads = described(CODE);
        reads.accesses[3].direction = hmtt_format::Direction::Read;
        let mut fewer = described(CODE);
        fewer.accesses.pop();
        for forged in [shorter, reads, fewer, BlockAccesses::default()] {
            assert!(Plan::new(&forged, &settings).is_none(), "{forged:?}");
        }
    }
}
