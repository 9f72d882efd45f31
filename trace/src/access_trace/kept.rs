//! The values that a thread's last execution has kept for the next one.

use super::numbers::Numbered;

/// The last execution of a thread in a chunk.
#[derive(Clone, Debug, Default)]
pub struct LastExecution {
    /// The number of the path if it keeps values and was executed as a whole, or 0.
    number: u32,
    kept: Vec<u64>,
}

impl LastExecution {
    /// Hands the kept values to the next execution if it takes some. Returns whether it may: it is
    /// repeated right behind the same path. `values`: those of its slots.
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

    /// Continues after an execution of so many instructions. `values`: all of the path.
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
