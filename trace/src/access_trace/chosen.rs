//! How many accesses the recorded ones account for, if not all are recorded.

use hmtt_format::access_trace::{Access, BlockAccesses};

/// Numbers of accesses of blocks: of each once, or of all executions.
///
/// The measures are those of S. Economo, D. Cingolani, A. Pellegrini and F. Quaglia, "Configurable and Efficient Memory Access
/// Tracing via Selective Expression-based x86 Binary Instrumentation", MASCOTS 2016.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// All accesses.
    pub all: u64,
    /// Accesses that are recorded.
    pub recorded: u64,
    /// Accesses that are recorded, or have the address of one that is.
    pub represented: u64,
    /// Further accesses that are probably in a chunk of memory with a recorded one.
    pub near: u64,
}

impl Chosen {
    /// Those of one execution of a block.
    pub fn of(block: &BlockAccesses) -> Self {
        let recorded = block.accesses.len() as u64;
        let represents = |access: &Access| u64::from(access.represents);
        Chosen {
            all: block.all.into(),
            recorded,
            represented: block.accesses.iter().map(represents).sum(),
            near: block.near.into(),
        }
    }

    /// Adds several executions of a block.
    pub fn add(&mut self, block: Chosen, executions: u64) {
        let sum = |sum: &mut u64, one: u64| {
            *sum = sum.saturating_add(one.saturating_mul(executions));
        };
        sum(&mut self.all, block.all);
        sum(&mut self.recorded, block.recorded);
        sum(&mut self.represented, block.represented);
        sum(&mut self.near, block.near);
    }

    /// Minimal accuracy, from 0 to 1: the share of accesses whose addresses are known. `None` without accesses.
    pub fn minimal_accuracy(&self) -> Option<f64> {
        ratio(self.represented, self.all)
    }

    /// Alignment-independent accuracy, from 0 to 1: the share of accesses whose chunks of memory are known if none of those
    /// that are near each other are on different sides of a boundary. `None` without accesses.
    pub fn alignment_independent_accuracy(&self) -> Option<f64> {
        ratio(self.represented.saturating_add(self.near), self.all)
    }

    /// Payoff factor: how many accesses a recorded one accounts for. `None` if none is recorded.
    pub fn payoff(&self) -> Option<f64> {
        ratio(self.represented, self.recorded)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
