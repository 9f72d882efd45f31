//! Samples a process without tags to find the functions in which it spends its time.
//!
//! A thread in a system call is not counted: it waits, or the kernel works for it.

use std::time::Duration;

use nix::sys::signal::SigSet;

use super::ending::Ending;
use super::event_loop::follow_while;
use super::sampler::{Sampler, Samples};
use super::{TagError, Tagged};
use crate::ptrace::Process;

/// Result of sampling a process.
#[derive(Debug)]
pub enum Sampled {
    /// Samples of a process whose threads are all stopped and that has no tags.
    Finished(Box<Process>, Samples),
    /// The process has ended, or the controller was asked to detach, before sampling finished.
    Ended(Box<Tagged>, Ending),
}

/// Samples a process without tags for the time `during`. If a breakpoint is set at `main`, the time
/// begins there. Sampling ends earlier if the process ends or one of the signals `detach` arrives.
/// The caller has blocked these signals.
///
/// # Errors
/// [`TagError`] if the process cannot be followed.
pub fn sample(tagged: Tagged, detach: SigSet, during: Duration) -> Result<Sampled, TagError> {
    let mut sampler = Sampler::new(during);
    let (mut tagged, ending) = follow_while(tagged, detach, &mut sampler)?;
    if ending == Ending::Detached && sampler.is_over() {
        tagged.undo()?;
        return Ok(Sampled::Finished(Box::new(tagged.process), sampler.samples));
    }
    Ok(Sampled::Ended(Box::new(tagged), ending))
}
