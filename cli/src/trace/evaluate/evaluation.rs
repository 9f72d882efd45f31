//! Multiplies the plans of all blocks by the blocks' executions, and compares addresses of the full
//! trace.
//!
//! Accuracies are counted as `hmtt info` counts them: an execution counts as a whole, even if it
//! ended early.

use hmtt::access_trace::{Executed, ThreadAccess, Visitor};
use hmtt_files::access_trace::{Accuracy, BlockAccesses, Made, Place};

use super::caches::Caches;
use super::plan::{Check, Plan};
use super::settings::Settings;

/// Limit of the total [`Plan::size`] of all plans. The plans of a million blocks are smaller.
const MOST_PLANS: usize = 1 << 27;

/// How often an assumption of a setting was wrong. The assumption is that an unrecorded access
/// touches the same chunk as a recorded access of its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Executed accesses that are not recorded, and that probably touch the chunk of a recorded
    /// access. The recorded access was executed, too.
    pub checked: u64,
    /// Accesses among `checked` whose chunk no such recorded access has touched.
    pub different: u64,
}

/// The plan of a block, and the number of its executions.
struct Counted {
    /// `None` if the block's code does not fit its described accesses, or if there are too many
    /// plans.
    plan: Option<Plan>,
    executions: u64,
}

/// Evaluates settings while it visits a trace.
pub struct Evaluation {
    settings: Settings,
    caches: Option<Caches>,
    /// Blocks by number; `None` for numbers that were not executed.
    blocks: Vec<Option<Counted>>,
    /// Number of the block that is being executed.
    current: usize,
    /// Accesses of the current execution so far, each with its place in the block.
    made: Vec<(u16, Made)>,
    /// First place in the block that the next access may have.
    next: usize,
    /// Addresses of the current execution, by place in the block.
    addresses: Vec<Option<u64>>,
    unplanned: u64,
    /// Size that further plans may still have.
    left: usize,
}

/// Results of an evaluation.
pub struct Results {
    /// The compared settings.
    pub settings: Settings,
    /// For each setting, the sum of the accuracies of all executions.
    pub accuracies: Vec<Accuracy>,
    /// For each setting, the sum of the compared chunks.
    pub sharing: Vec<Sharing>,
    /// The simulated caches, if the user wants them.
    pub caches: Option<Caches>,
    /// Number of executed blocks that have a plan.
    pub executions: u64,
    /// Number of accesses in these blocks.
    pub accesses: u128,
    /// Number of executed blocks that are left out: their code does not fit their described
    /// accesses, or there are too many blocks.
    pub unplanned: u64,
}

impl Results {
    /// A sentence on the executions that are left out; `None` if there are none.
    pub fn what_is_missing(&self) -> Option<String> {
        let count = self.unplanned;
        (count > 0).then(|| {
            format!(
                "{count} executed blocks are left out: their code is not that of their accesses, or there are too many"
            )
        })
    }
}

impl Evaluation {
    /// Starts an evaluation. `caches`: caches for each setting, if the user wants them.
    pub fn new(settings: Settings, caches: Option<Caches>) -> Self {
        Evaluation {
            settings,
            caches,
            blocks: Vec::new(),
            current: 0,
            made: Vec::new(),
            next: 0,
            addresses: Vec::new(),
            unplanned: 0,
            left: MOST_PLANS,
        }
    }

    /// Evaluates the last execution, whose accesses are complete.
    fn end_execution(&mut self) {
        let Some(Some(Counted { plan: Some(plan), .. })) = self.blocks.get_mut(self.current) else {
            return;
        };
        if !plan.checks.is_empty() {
            self.addresses.clear();
            self.addresses.resize(plan.recorded_by.len(), None);
            for (place, access) in &self.made {
                self.addresses[usize::from(*place)] = access.address;
            }
            plan.checks.iter_mut().for_each(|check| check.compare(&self.addresses));
        }
        if let Some(caches) = &mut self.caches {
            caches.execute(&self.made, &plan.recorded_by);
        }
    }

    /// Returns the results. Called after the end of the trace.
    pub fn finish(mut self) -> Results {
        self.end_execution();
        let Evaluation { settings, caches, blocks, unplanned, .. } = self;
        let mut results = Results {
            accuracies: vec![Accuracy::default(); settings.len()],
            sharing: vec![Sharing::default(); settings.len()],
            settings,
            caches,
            executions: 0,
            accesses: 0,
            unplanned,
        };
        for Counted { plan, executions } in blocks.into_iter().flatten() {
            let Some(plan) = plan else { continue };
            results.executions += executions;
            results.accesses += plan.recorded_by.len() as u128 * u128::from(executions);
            for (sum, of_block) in results.accuracies.iter_mut().zip(&plan.accuracies) {
                *sum += of_block.times(executions);
            }
            for Check { settings, checked, different, .. } in &plan.checks {
                for setting in settings {
                    let sum = &mut results.sharing[usize::from(*setting)];
                    sum.checked += checked;
                    sum.different += different;
                }
            }
        }
        results
    }
}

impl Check {
    /// Compares the chunks of one execution. `addresses`: addresses of the accesses that were made,
    /// by place in the block.
    fn compare(&mut self, addresses: &[Option<u64>]) {
        let address = |place: u16| addresses[usize::from(place)];
        let chunk = |address: u64| address / self.chunk;
        let Some(own) = address(self.access).map(chunk) else { return };
        let recorded = self.recorded.iter().filter_map(|place| address(*place));
        let (mut is_executed, mut is_known) = (false, false);
        for other in recorded {
            (is_executed, is_known) = (true, is_known || chunk(other) == own);
        }
        self.checked += u64::from(is_executed);
        self.different += u64::from(is_executed && !is_known);
    }
}

/// The place in the block of an access that was made. This is the next access of the same
/// instruction, and instructions between that made no accesses are skipped. If the last access has
/// several lanes (elements of a vector instruction), the place is the same again. Example: after a
/// block's access 0, an access of the instruction of accesses 2 and 3 has the place 2.
fn place(block: &BlockAccesses, next: usize, record: &Made) -> Option<usize> {
    let last = next.checked_sub(1).and_then(|last| Some((last, block.accesses.get(last)?)));
    if let Some((last, access)) = last
        && let Place::Lanes(_) = access.place
        && (access.pc, access.direction) == (record.pc, record.direction)
    {
        return Some(last);
    }
    let rest = block.accesses.get(next..)?;
    rest.iter().position(|access| access.pc == record.pc).map(|more| next + more)
}

impl Visitor for Evaluation {
    fn block(&mut self, executed: &Executed<'_>) {
        self.end_execution();
        self.made.clear();
        self.current = executed.number as usize;
        if self.blocks.len() <= self.current {
            self.blocks.resize_with(self.current + 1, || None);
        }
        let (settings, left) = (&self.settings, &mut self.left);
        let counted = self.blocks[self.current].get_or_insert_with(|| {
            let plan = Plan::new(executed.block, settings);
            let plan = plan.filter(|plan| {
                *left = left.saturating_sub(plan.size());
                *left > 0
            });
            Counted { plan, executions: 0 }
        });
        counted.executions += 1;
        let is_planned = counted.plan.is_some();
        self.unplanned += u64::from(!is_planned);
        // A forged block may have very many accesses. Only a block with a plan has few enough to be
        // searched.
        self.next = if is_planned { 0 } else { usize::MAX };
    }

    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        if let Some(place) = place(executed.block, self.next, &access.made) {
            self.next = place + 1;
            self.made.push((place as u16, access.made));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use hmtt_translator::selection::Equality;

    use super::super::settings::Share;
    use super::*;

    #[test]
    fn blocks_with_other_code_are_left_out_and_counted() {
        let settings = Settings::new(&[Share::Everything], &[NonZeroU64::MIN], Equality::Values);
        let mut evaluation = Evaluation::new(settings, None);
        let block = BlockAccesses { code: vec![0x06], instructions: 1, ..BlockAccesses::default() };
        let executed = Executed::alone(1, 7, &block);
        evaluation.block(&executed);
        evaluation.block(&executed);
        let results = evaluation.finish();
        assert_eq!((results.unplanned, results.executions, results.accesses), (2, 0, 0));
        assert!(results.what_is_missing().unwrap().starts_with("2 executed blocks are left out"));
    }

    #[test]
    fn only_executed_accesses_are_compared() {
        let mut check = Check {
            chunk: NonZeroU64::new(16).unwrap(),
            access: 0,
            recorded: vec![1, 2],
            settings: vec![0],
            checked: 0,
            different: 0,
        };
        let mut counts = Vec::new();
        for addresses in [
            [Some(0x10), Some(0x1f), None],
            [Some(0x10), Some(0x20), Some(0x18)],
            [Some(0x10), Some(0x20), Some(0xf)],
            [Some(0x10), None, None],
            [None, Some(0x10), Some(0x10)],
        ] {
            check.compare(&addresses);
            counts.push((check.checked, check.different));
        }
        assert_eq!(counts, [(1, 0), (2, 0), (3, 1), (3, 1), (3, 1)]);
    }
}
