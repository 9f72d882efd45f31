//! Tagged processes that run until they end, or until they are to be left.
//!
//! Signals pass through. Signals to us come between the events of the processes, never lost: they are
//! blocked and waited for together with those of the processes.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use super::ending::Ending;
use super::family::{Family, Keeper};
use super::sampler::{EVERY, Sampler};
use super::{Start, TagError, Tagged};
use crate::ptrace::PtraceError;

/// How often threads are looked at when no signal says that something has happened.
const TICK: Duration = Duration::from_millis(20);

/// Most events that are looked at before signals to us are: a program whose threads get signals faster than we look at
/// them does not keep us from being asked to leave.
const EVENTS: usize = 64;

/// Follows one process until it ends, becomes another program, or one of the signals `detach`, which are
/// blocked, comes. Its threads stand still when this begins, and unless it has ended when it is over. Its
/// children are let go as they would be without tags. `changed` is called whenever functions have been
/// tagged.
///
/// # Errors
/// [`TagError`] if it cannot be followed.
pub fn follow(
    tagged: Tagged,
    detach: SigSet,
    changed: impl FnMut(&Tagged),
) -> Result<(Tagged, Ending), TagError> {
    let mut alone = Alone { changed, ended: None };
    let pid = tagged.pid();
    run(Family::new(tagged, None, &mut alone), &detach, None)?;
    Ok(alone.ended.ok_or(PtraceError::Ended(pid))?)
}

/// Follows one process as [`follow`] does, and looks at it until that is over: then it is left.
pub(super) fn follow_while(
    tagged: Tagged,
    detach: SigSet,
    sampler: &mut Sampler,
) -> Result<(Tagged, Ending), TagError> {
    let mut alone = Alone { changed: |_: &Tagged| {}, ended: None };
    let pid = tagged.pid();
    run(Family::new(tagged, None, &mut alone), &detach, Some(sampler))?;
    Ok(alone.ended.ok_or(PtraceError::Ended(pid))?)
}

/// Follows a process, its children and theirs, and the programs they become, until all have ended, or one
/// of the signals `detach`, which are blocked, comes: then all go on without tags. `start`: when programs that
/// they become are tagged. Nothing is traced any more when this is over. How the first process has ended
/// comes back.
///
/// # Errors
/// [`TagError`] if nothing can be followed any more; what cannot be tagged is told to the keeper.
pub fn follow_all(
    tagged: Tagged,
    start: Start,
    detach: SigSet,
    keeper: &mut dyn Keeper,
) -> Result<Ending, TagError> {
    run(Family::new(tagged, Some(start), keeper), &detach, None)
}

fn run(
    mut family: Family<'_>,
    detach: &SigSet,
    sampler: Option<&mut Sampler>,
) -> Result<Ending, TagError> {
    match events(&mut family, detach, sampler) {
        Ok(Some(ending)) => Ok(ending),
        Ok(None) => family.leave(),
        Err(error) => {
            family.give_up();
            Err(error)
        }
    }
}

/// How the first process has ended, when all have; `None` if they are to be left.
fn events(
    family: &mut Family<'_>,
    detach: &SigSet,
    mut sampler: Option<&mut Sampler>,
) -> Result<Option<Ending>, TagError> {
    let mut waited = *detach;
    waited.add(Signal::SIGCHLD);
    family.begin()?;
    loop {
        let mut is_all = false;
        for _ in 0..EVENTS {
            let Some(status) = family.next_event()? else {
                is_all = true;
                break;
            };
            family.event(status)?;
            if let Some(ending) = family.ending() {
                return Ok(Some(ending));
            }
        }
        family.keep_budgets()?;
        family.watch_filters()?;
        let soon = family.look_at_gates()?;
        if let Some(sampler) = &mut sampler {
            if sampler.is_over() {
                return Ok(None);
            }
            family.look(sampler)?;
        }
        if let Some(ending) = family.ending() {
            return Ok(Some(ending));
        }
        let tick = if sampler.is_some() { EVERY } else { TICK };
        let tick = soon.map_or(tick, |soon| tick.min(soon));
        let at_most = if is_all && !family.has_heard() { tick } else { Duration::ZERO };
        let signal =
            wait_for(&waited, at_most).map_err(PtraceError::new(family.first(), "wait"))?;
        if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
            return Ok(None);
        }
    }
}

/// The signal that comes first; `None` if none comes so long.
fn wait_for(signals: &SigSet, at_most: Duration) -> nix::Result<Option<Signal>> {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as i64,
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    // SAFETY: the kernel reads a set and a time that outlive the call, and writes nothing.
    let signal =
        unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), &raw const timeout) };
    match Errno::result(signal) {
        Ok(number) => Signal::try_from(number).map(Some),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One process: it is not asked where anything of others is to go.
struct Alone<F> {
    changed: F,
    ended: Option<(Tagged, Ending)>,
}

impl<F: FnMut(&Tagged)> Keeper for Alone<F> {
    fn changed(&mut self, tagged: &Tagged) {
        (self.changed)(tagged);
    }

    fn ended(&mut self, tagged: Tagged, ending: Ending) {
        self.ended = Some((tagged, ending));
    }

    fn output(&mut self, _: Pid) -> Result<super::Output, TagError> {
        Ok(super::Output::None)
    }

    fn unused(&mut self, _: Pid) {}

    fn untagged(&mut self, _: Pid, _: &std::path::Path, _: &TagError) {}
}
