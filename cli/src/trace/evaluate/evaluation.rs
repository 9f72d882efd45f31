//! Weights what settings record of each block by its executions, and compares addresses of the full
//! trace.
//!
//! Accuracies are counted as `hmtt info` counts them: an execution counts as a whole, even if it
//! ended early.

use hmtt::access_trace::{Executed, ThreadAccess, Visitor};
use hmtt_format::access_trace::{Accuracy, BlockAccesses, Made, Place};

use super::caches::Caches;
use super::plan::{Check, Plan};
use super::settings::Settings;

/// Largest size of all plans. Those of a million blocks have less.
const MOST_PLANS: usize = 1 << 27;

/// How often a chunk that is probably known is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Accesses that are probably in the same chunk as a recorded one, of which both were executed.
    pub checked: u64,
    /// Those among them that are in no chunk of such a recorded one.
    pub different: u64,
}

/// A block, and how often it was executed.
struct Counted {
    /// `None`: its code is not that of its accesses.
    plan: Option<Plan>,
    executions: u64,
}

/// Evaluates settings, as a [`Visitor`].
pub struct Evaluation {
    settings: Settings,
    caches: Option<Caches>,
    /// By number.
    blocks: Vec<Option<Counted>>,
    /// Number of the current block.
    current: usize,
    /// The accesses of its execution up to now, with their places in the block.
    made: Vec<(u16, Made)>,
    /// Place in the block of the next access.
    next: usize,
    /// Addresses of the current execution, by place.
    addresses: Vec<Option<u64>>,
    unplanned: u64,
    /// How large further plans may be.
    left: usize,
}

/// What was found.
pub struct Results {
    /// The settings.
    pub settings: Settings,
    /// Sums over all executions, of each setting.
    pub accuracies: Vec<Accuracy>,
    /// How often chunks are other ones, of each setting.
    pub sharing: Vec<Sharing>,
    /// The caches.
    pub caches: Option<Caches>,
    /// Executions of blocks.
    pub executions: u64,
    /// All accesses of these blocks.
    pub accesses: u128,
    /// Executions that are left out, because the code of the block is not that of its accesses, or
    /// there are too many blocks.
    pub unplanned: u64,
}

impl Results {
    /// What is missing in the results.
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
    /// Evaluates settings, with a cache for each or without caches.
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

    /// Evaluates the execution that has ended.
    fn end_execution(&mut self) {
        let Some(Some(Counted { plan: Some(plan), .. })) = self.blocks.get_mut(self.current) else {
            return;
        };
        if !plan.checks.is_empty() {
            self.addresses.clear();
            self.addresses.resize(plan.recorded_by.len(), None);
            for (place, made) in &self.made {
                self.addresses[usize::from(*place)] = made.address;
            }
            plan.checks.iter_mut().for_each(|check| check.compare(&self.addresses));
        }
        if let Some(caches) = &mut self.caches {
            caches.execute(&self.made, &plan.recorded_by);
        }
    }

    /// The results, after the end of the trace.
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
    /// Compares the chunks of an execution. `addresses`: those that were accessed, by place.
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

/// The place of an access that was made: the next one of its instruction, or the last one again if
/// that has several elements. Instructions without accesses are passed over.
fn place(block: &BlockAccesses, next: usize, made: &Made) -> Option<usize> {
    let last = next.checked_sub(1).and_then(|last| Some((last, block.accesses.get(last)?)));
    if let Some((last, access)) = last
        && let Place::Lanes(_) = access.place
        && (access.pc, access.direction) == (made.pc, made.direction)
    {
        return Some(last);
    }
    let rest = block.accesses.get(next..)?;
    rest.iter().position(|access| access.pc == made.pc).map(|more| next + more)
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
        // A forged block may have many accesses, and only those of a plan are few enough to be
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
        let mut found = Vec::new();
        for addresses in [
            [Some(0x10), Some(0x1f), None],
            [Some(0x10), Some(0x20), Some(0x18)],
            [Some(0x10), Some(0x20), Some(0xf)],
            [Some(0x10), None, None],
            [None, Some(0x10), Some(0x10)],
        ] {
            check.compare(&addresses);
            found.push((check.checked, check.different));
        }
        assert_eq!(found, [(1, 0), (2, 0), (3, 1), (3, 1), (3, 1)]);
    }
}
