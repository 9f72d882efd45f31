//! How many accesses the traced ones account for.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::selector::{Coverage, Selection};

/// Numbers of accesses: of one execution of a block, or of many executions of many blocks.
///
/// They are exact: `u128` holds the sum over 2^50 blocks, each with 2^14 accesses and 2^64 executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// All accesses.
    pub accesses: u128,
    /// Accesses that are traced.
    pub traced: u128,
    /// Accesses that are traced or equal to one that is, so that their addresses are known.
    pub equal: u128,
    /// Accesses that equal none, but whose expression is at distance zero from that of a traced one, so that their
    /// chunks are probably known.
    pub near: u128,
}

impl Accuracy {
    /// The accuracy of one execution of a block.
    pub fn of(selection: &Selection) -> Self {
        let mut accuracy = Accuracy {
            accesses: selection.represented_by.len() as u128,
            traced: selection.chosen.len() as u128,
            ..Accuracy::default()
        };
        let for_themselves = selection.represented_by.iter().filter(|class| class.is_none());
        accuracy.equal = for_themselves.count() as u128;
        for representative in &selection.representatives {
            let count = representative.score.count as u128;
            match representative.coverage {
                Coverage::Traced => accuracy.equal += count,
                Coverage::Near => accuracy.near += count,
                Coverage::Missed => {}
            }
        }
        accuracy
    }

    /// The accuracy of a number of executions of the same block.
    #[must_use]
    pub fn times(self, executions: u64) -> Self {
        let executions = u128::from(executions);
        Accuracy {
            accesses: self.accesses * executions,
            traced: self.traced * executions,
            equal: self.equal * executions,
            near: self.near * executions,
        }
    }

    /// Minimal Accuracy, between 0 and 1: the share of accesses whose addresses are known. `None` if there are no
    /// accesses.
    pub fn minimal(&self) -> Option<f64> {
        ratio(self.equal, self.accesses)
    }

    /// Alignment-Independent Accuracy, between 0 and 1: the share of accesses whose chunks are known if no two
    /// expressions at distance zero are on different sides of a boundary between chunks. `None` if there are no
    /// accesses.
    pub fn alignment_independent(&self) -> Option<f64> {
        ratio(self.equal + self.near, self.accesses)
    }

    /// The share of accesses that are traced, between 0 and 1. `None` if there are no accesses.
    pub fn traced_share(&self) -> Option<f64> {
        ratio(self.traced, self.accesses)
    }

    /// The payoff factor: Minimal Accuracy divided by the share of accesses that are traced. It is the number of
    /// accesses that a traced one accounts for: 1 if every access is traced. `None` if none is.
    ///
    /// The paper uses a payoff factor too; its definition was not available and may differ.
    pub fn payoff(&self) -> Option<f64> {
        ratio(self.equal, self.traced)
    }

    /// As [`payoff`](Self::payoff), of Alignment-Independent Accuracy.
    pub fn alignment_independent_payoff(&self) -> Option<f64> {
        ratio(self.equal + self.near, self.traced)
    }
}

impl AddAssign for Accuracy {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.traced += other.traced;
        self.equal += other.equal;
        self.near += other.near;
    }
}

fn ratio(part: u128, whole: u128) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}

/// The accuracy of many blocks, weighted by their executions: overall, and for each group of blocks, such as those of a
/// function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accuracies<Group> {
    /// The accuracy of all blocks.
    pub overall: Accuracy,
    /// The accuracy of each group.
    pub groups: BTreeMap<Group, Accuracy>,
}

impl<Group: Ord> Accuracies<Group> {
    /// Adds a block of a group that was executed a number of times.
    pub fn add(&mut self, group: Group, block: Accuracy, executions: u64) {
        let weighted = block.times(executions);
        self.overall += weighted;
        *self.groups.entry(group).or_default() += weighted;
    }
}

impl<Group> Default for Accuracies<Group> {
    fn default() -> Self {
        Accuracies { overall: Accuracy::default(), groups: BTreeMap::new() }
    }
}
