//! A process without tags to the functions in which its time is spent: its threads are looked at again and
//! again.
//!
//! One in a system call is not counted: it waits, or works for others.

use std::time::Duration;

use nix::sys::signal::SigSet;

use super::ending::Ending;
use super::follow::follow_while;
use super::sampler::{Sampler, Samples};
use super::{TagError, Tagged};
use crate::ptrace::Process;

/// What has come of looking at a process.
#[derive(Debug)]
pub enum Sampled {
    /// This; its threads all stand still, and it has nothing of ours.
    Seen(Box<Process>, Samples),
    /// It has ended, or is to be left, before the time was over.
    Ended(Box<Tagged>, Ending),
}

/// Looks at a process in which nothing is tagged for so long, from its `main` on if that is watched for, or
/// until it ends or one of the signals `detach`, which are blocked, comes.
///
/// # Errors
/// [`TagError`] if it cannot be followed.
pub fn sample(tagged: Tagged, detach: SigSet, during: Duration) -> Result<Sampled, TagError> {
    let mut sampler = Sampler::new(during);
    let (mut tagged, ending) = follow_while(tagged, detach, &mut sampler)?;
    if ending == Ending::Detached && sampler.is_over() {
        tagged.undo()?;
        return Ok(Sampled::Seen(Box::new(tagged.process), sampler.samples));
    }
    Ok(Sampled::Ended(Box::new(tagged), ending))
}
