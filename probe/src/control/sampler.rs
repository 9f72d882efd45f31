//! Samples the threads of a process periodically, and counts the functions that they are in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::breakpoint::Purpose;
use super::{TagError, Tagged};
use crate::address::{FileAddr, RunAddr};
use crate::elf::Function;

/// Time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_millis(1);

/// Number of samples by function.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Number of samples in each function of the program, by the function's first address.
    hits: HashMap<u64, u64>,
    /// Number of samples in any code, inside and outside the program.
    pub all: u64,
}

impl Samples {
    /// Number of samples whose address is in the function itself. Functions that it calls do not
    /// count.
    pub fn count_in(&self, function: &Function) -> u64 {
        self.hits.get(&function.start).copied().unwrap_or(0)
    }
}

/// Samples a process for some time.
#[derive(Debug)]
pub(super) struct Sampler {
    during: Duration,
    begun: Option<Instant>,
    last: Instant,
    pub samples: Samples,
}

impl Sampler {
    /// A sampler that ends `during` after its first sample.
    pub fn new(during: Duration) -> Self {
        let (begun, samples, last) = (None, Samples::default(), Instant::now());
        Sampler { during, begun, last, samples }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() >= self.during)
    }

    /// Whether the next sample is due.
    pub fn is_due(&self) -> bool {
        self.last.elapsed() >= INTERVAL
    }

    /// Takes a sample of the running threads of a process, once it has reached its `main`. Threads
    /// are stopped one after the other; threads that wait are not disturbed.
    pub fn take(&mut self, tagged: &mut Tagged) -> Result<(), TagError> {
        self.last = Instant::now();
        let code = &tagged.tags.code;
        if code.breakpoints.iter().any(|breakpoint| breakpoint.purpose == Purpose::Main) {
            return Ok(());
        }
        self.begun.get_or_insert(self.last);
        let program = &tagged.tags.program;
        for registers in tagged.process.sample_registers()? {
            if registers.orig_rax.cast_signed() >= 0 {
                continue;
            }
            self.samples.all += 1;
            let FileAddr(address) = program.bias.to_file(RunAddr(registers.rip));
            if let Some(function) = program.image.function_at(address) {
                *self.samples.hits.entry(function.start).or_default() += 1;
            }
        }
        Ok(())
    }
}
