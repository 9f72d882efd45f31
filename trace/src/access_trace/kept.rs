//! Hands the values that an execution keeps to a repeated execution behind it.
//!
//! If a path is executed several times in succession, the later executions need not record values
//! that follow from the execution before them. `hmtt_files::access_trace::Repeated` states how many
//! values the repeated path takes, and from which path:
//!
//! ```text
//! first path      slot 0x5000             keeps its slot + 16
//! repeated path   no slot, takes 0x5010   keeps this value + 16
//! repeated path   no slot, takes 0x5020   keeps this value + 16
//! ```

use super::numbers::Numbered;

/// The last execution of a thread in a chunk, and the values that it has kept.
#[derive(Clone, Debug, Default)]
pub struct LastExecution {
    /// The number of the whole path. 0 if the path keeps no values, or was not executed to its end.
    number: u32,
    /// The kept values. Only valid if `number` is not 0.
    kept: Vec<u64>,
}

impl LastExecution {
    /// Appends the kept values to the slots in `values` if the next execution takes kept values.
    /// Returns false if the next execution takes kept values but there are none: the last execution
    /// was of another path, or incomplete.
    #[inline]
    pub fn hand_over(&self, next: &Numbered<'_>, values: &mut Vec<u64>) -> bool {
        let repeated = next.block.repeated;
        if repeated.taken == 0 {
            return true;
        }
        let is_behind = self.number != 0 && [repeated.first, next.whole].contains(&self.number);
        next.block.take(values, &self.kept);
        is_behind && self.kept.len() == usize::from(repeated.taken)
    }

    /// Keeps values of an execution for the next one. `instructions`: how many instructions were
    /// executed. `values`: the slots, taken and derived values of the path.
    #[inline]
    pub fn keep(&mut self, executed: &Numbered<'_>, instructions: usize, values: &[u64]) {
        let is_whole = instructions >= usize::from(executed.block.instructions);
        if executed.block.kept.is_empty() || !is_whole {
            self.number = 0;
            return;
        }
        self.number = executed.whole;
        self.kept.clear();
        self.kept.extend(executed.block.kept.iter().map(|kept| kept.of(values)));
    }
}
