//! A process without tags to the functions in which its time is spent: its threads are looked at again and
//! again.
//!
//! One in a system call is not counted: it waits, or works for others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;

use super::follow::{Ending, follow_while};
use super::gate::Purpose;
use super::{TagError, Tagged};
use crate::elf::Function;
use crate::ptrace::Process;

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

/// What has come of looking at a process.
#[derive(Debug)]
pub enum Sampled {
    /// This; its threads all stand still, and it has nothing of ours.
    Seen(Box<Process>, Samples),
    /// It has ended, or is to be left, before the time was over.
    Ended(Box<Tagged>, Ending),
}

/// Looks at a process.
#[derive(Debug)]
pub(super) struct Sampler {
    during: Duration,
    begun: Option<Instant>,
    last: Instant,
    samples: Samples,
}

impl Sampler {
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

/// Looks at a process in which nothing is tagged for so long, from its `main` on if that is watched for, or
/// until it ends or one of the signals `detach`, which are blocked, comes.
///
/// # Errors
/// [`TagError`] if it cannot be followed.
pub fn sample(tagged: Tagged, detach: SigSet, during: Duration) -> Result<Sampled, TagError> {
    let (begun, samples, last) = (None, Samples::default(), Instant::now());
    let mut sampler = Sampler { during, begun, last, samples };
    let (mut tagged, ending) = follow_while(tagged, detach, &mut sampler)?;
    if ending == Ending::Detached && sampler.is_over() {
        tagged.undo()?;
        return Ok(Sampled::Seen(Box::new(tagged.process), sampler.samples));
    }
    Ok(Sampled::Ended(Box::new(tagged), ending))
}
