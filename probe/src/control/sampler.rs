//! Looks at the threads of a process again and again, and counts where they are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::gate::Purpose;
use super::{TagError, Tagged};
use crate::elf::Function;

/// Time between two looks.
pub(super) const EVERY: Duration = Duration::from_millis(1);

/// Where threads were when they were looked at.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// In functions of the program, by their first addresses.
    hits: HashMap<u64, u64>,
    /// Anywhere.
    pub all: u64,
}

impl Samples {
    /// How often a thread was in a function itself.
    pub fn of(&self, function: &Function) -> u64 {
        self.hits.get(&function.start).copied().unwrap_or(0)
    }
}

/// Looks at a process.
#[derive(Debug)]
pub(super) struct Sampler {
    during: Duration,
    begun: Option<Instant>,
    last: Instant,
    pub samples: Samples,
}

impl Sampler {
    /// Looks for so long.
    pub fn new(during: Duration) -> Self {
        let (begun, samples, last) = (None, Samples::default(), Instant::now());
        Sampler { during, begun, last, samples }
    }

    /// Whether it was long enough.
    pub fn is_over(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() >= self.during)
    }

    /// Whether it is time for the next look.
    pub fn is_time(&self) -> bool {
        self.last.elapsed() >= EVERY
    }

    /// Looks at those threads of a process that work, once it has got to its `main`. They are stopped for that,
    /// one after the other: those that wait are not disturbed.
    pub fn look(&mut self, tagged: &mut Tagged) -> Result<(), TagError> {
        self.last = Instant::now();
        if tagged.gates.iter().any(|gate| gate.purpose == Purpose::Main) {
            return Ok(());
        }
        self.begun.get_or_insert(self.last);
        let program = &tagged.program;
        for registers in tagged.process.glance()? {
            if registers.orig_rax.cast_signed() >= 0 {
                continue;
            }
            self.samples.all += 1;
            let address = registers.rip.wrapping_sub(program.bias);
            if let Some(function) = program.image.function_at(address) {
                *self.samples.hits.entry(function.start).or_default() += 1;
            }
        }
        Ok(())
    }
}
