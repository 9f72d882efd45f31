//! Computes for how many accesses the addresses follow from the recorded ones.
//!
//! The measures are taken from S. Economo, D. Cingolani, A. Pellegrini and F. Quaglia,
//! "Configurable and Efficient Memory Access Tracing via Selective Expression-based x86 Binary
//! Instrumentation", MASCOTS 2016 (DOI 10.1109/MASCOTS.2016.69).
//!
//! Example: a block has four accesses, `[rax]`, `[rax]`, `[rax + 8]` and `[rbx]`, and only the
//! first one is traced. The second access is equal to it. The third is not equal, but near. So
//! `accesses` is 4, `traced` 1, `equal` 2 and `near` 1.

use std::ops::AddAssign;

/// Numbers of accesses of one execution of a block, or of many executions of many blocks.
///
/// The numbers are exact: `u128` holds the sum over 2^50 blocks, each with 2^14 accesses and 2^64
/// executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// All accesses.
    pub accesses: u128,
    /// Accesses that are traced (recorded).
    pub traced: u128,
    /// Accesses that are traced, or equal to a traced access, so that their addresses are known.
    pub equal: u128,
    /// Accesses that are equal to no traced access, but whose expression is at distance zero from
    /// the expression of a traced access. So their chunks of memory are probably known.
    pub near: u128,
}

impl Accuracy {
    /// Multiplies the numbers of one execution by `executions`.
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

    /// Minimal Accuracy, between 0 and 1: the share of accesses whose addresses are known. `None`
    /// if there are no accesses.
    pub fn minimal(&self) -> Option<f64> {
        ratio(self.equal, self.accesses)
    }

    /// Alignment-Independent Accuracy, between 0 and 1: the share of accesses whose chunks of
    /// memory are known, assuming that no boundary between chunks separates two expressions at
    /// distance zero. `None` if there are no accesses.
    pub fn alignment_independent(&self) -> Option<f64> {
        ratio(self.equal + self.near, self.accesses)
    }

    /// The share of accesses that are traced, between 0 and 1. `None` if there are no accesses.
    pub fn traced_share(&self) -> Option<f64> {
        ratio(self.traced, self.accesses)
    }

    /// The payoff factor: Minimal Accuracy divided by the share of accesses that are traced. It
    /// states how many accesses a traced access accounts for, and is 1 if every access is traced.
    /// `None` if no access is traced.
    ///
    /// The paper uses a payoff factor too; its definition was not available and may differ.
    pub fn payoff(&self) -> Option<f64> {
        ratio(self.equal, self.traced)
    }

    /// The [payoff factor](Self::payoff), computed with Alignment-Independent Accuracy.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_accuracy() {
        let none = Accuracy::default();
        assert_eq!((none.minimal(), none.payoff(), none.traced_share()), (None, None, None));
        let missed = Accuracy { accesses: 1, ..none };
        assert_eq!((missed.minimal(), missed.payoff()), (Some(0.0), None));
    }

    #[test]
    fn executions_weight_blocks() {
        let block = Accuracy { accesses: 4, traced: 1, equal: 1, near: 1 };
        let other = Accuracy { accesses: 1, traced: 1, equal: 1, near: 0 };
        let mut sum = Accuracy::default();
        sum += block.times(10);
        sum += other.times(60);
        sum += block.times(0);
        assert_eq!(sum, Accuracy { accesses: 100, traced: 70, equal: 70, near: 10 });
        assert_eq!((sum.minimal(), sum.alignment_independent()), (Some(0.7), Some(0.8)));
        sum += other.times(u64::MAX);
        sum += other;
        assert_eq!(sum.accesses, (1 << 64) + 100);
    }
}
