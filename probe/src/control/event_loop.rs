//! Runs tagged processes until they end or until the controller is asked to detach.
//!
//! Signals to the processes are delivered to them. Signals to the controller are blocked, and are
//! fetched together with SIGCHLD between the events of the processes, so that none is lost.

use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use super::ending::Ending;
use super::process_tree::{ProcessTree, TraceObserver};
use super::sampler::{INTERVAL, Sampler};
use super::{Start, TagError, Tagged};
use crate::ptrace::{PtraceError, wait_for_signal};

/// Interval at which processes are checked when no signal reports an event.
const TICK: Duration = Duration::from_millis(20);

/// Maximum number of events that are handled before signals to the controller are checked.
/// Otherwise a program whose threads receive signals faster than they can be handled would prevent
/// a detach.
const EVENTS: usize = 64;

/// Follows one process until it ends, until it executes another program, or until one of the
/// signals `detach` arrives. The caller has blocked these signals.
///
/// The threads of the process must be stopped, and are stopped again on return unless the process
/// has ended. Its children are released without tags. `changed` is called whenever functions have
/// been tagged.
///
/// # Errors
/// [`TagError`] if the process cannot be followed.
pub fn follow(
    tagged: Tagged,
    detach: SigSet,
    changed: impl FnMut(&Tagged),
) -> Result<(Tagged, Ending), TagError> {
    let mut single = SingleProcess { changed, ended: None };
    let pid = tagged.pid();
    run(ProcessTree::new(tagged, None, &mut single), &detach, None)?;
    Ok(single.ended.ok_or(PtraceError::Ended(pid))?)
}

/// Follows one process as [`follow`] does, and samples it until the sampler has finished.
pub(super) fn follow_while(
    tagged: Tagged,
    detach: SigSet,
    sampler: &mut Sampler,
) -> Result<(Tagged, Ending), TagError> {
    let mut single = SingleProcess { changed: |_: &Tagged| {}, ended: None };
    let pid = tagged.pid();
    run(ProcessTree::new(tagged, None, &mut single), &detach, Some(sampler))?;
    Ok(single.ended.ok_or(PtraceError::Ended(pid))?)
}

/// Follows a process tree until all its processes have ended or until one of the signals `detach`
/// arrives. The caller has blocked these signals. Returns how the first process has ended.
///
/// `start`: when programs that processes execute are tagged. `None`: the tree consists of the first
/// process only, as with [`follow`]: it is followed until it ends or executes another program.
///
/// The observer gets each process that is no longer followed. It restores processes with the ending
/// [`Ending::Detached`]. It releases a first process that is followed alone and has the ending
/// [`Ending::Replaced`]. All other processes have ended or are not traced any more.
///
/// # Errors
/// [`TagError`] if no process can be followed. A process of a larger tree that cannot be tagged is
/// reported to the observer instead.
pub fn follow_tree(
    tagged: Tagged,
    start: Option<Start>,
    detach: SigSet,
    observer: &mut dyn TraceObserver,
) -> Result<Ending, TagError> {
    run(ProcessTree::new(tagged, start, observer), &detach, None)
}

fn run(
    mut tree: ProcessTree<'_>,
    detach: &SigSet,
    sampler: Option<&mut Sampler>,
) -> Result<Ending, TagError> {
    match events(&mut tree, detach, sampler) {
        Ok(Some(ending)) => Ok(ending),
        Ok(None) => tree.leave(),
        Err(error) => {
            tree.give_up();
            Err(error)
        }
    }
}

/// Handles events until all processes have ended. Returns how the first process has ended; `None`
/// if the controller was asked to detach.
fn events(
    tree: &mut ProcessTree<'_>,
    detach: &SigSet,
    mut sampler: Option<&mut Sampler>,
) -> Result<Option<Ending>, TagError> {
    let mut waited = *detach;
    waited.add(Signal::SIGCHLD);
    tree.start()?;
    loop {
        let mut is_all = false;
        for _ in 0..EVENTS {
            let Some(status) = tree.next_event()? else {
                is_all = true;
                break;
            };
            tree.handle_event(status)?;
            if let Some(ending) = tree.ending() {
                return Ok(Some(ending));
            }
        }
        tree.enforce_budgets()?;
        tree.check_new_filters()?;
        let soon = tree.serve_breakpoints()?;
        if let Some(sampler) = &mut sampler {
            if sampler.is_over() {
                return Ok(None);
            }
            tree.sample(sampler)?;
        }
        if let Some(ending) = tree.ending() {
            return Ok(Some(ending));
        }
        let tick = if sampler.is_some() { INTERVAL } else { TICK };
        let tick = soon.map_or(tick, |soon| tick.min(soon));
        let at_most = if is_all && !tree.has_pending() { tick } else { Duration::ZERO };
        let signal =
            wait_for_signal(&waited, at_most).map_err(PtraceError::new(tree.first(), "wait"))?;
        if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
            return Ok(None);
        }
    }
}

/// Observer of a single process. It has no output for further processes.
struct SingleProcess<F> {
    changed: F,
    ended: Option<(Tagged, Ending)>,
}

impl<F: FnMut(&Tagged)> TraceObserver for SingleProcess<F> {
    fn changed(&mut self, tagged: &Tagged) {
        (self.changed)(tagged);
    }

    fn ended(&mut self, tagged: Tagged, ending: Ending) {
        self.ended = Some((tagged, ending));
    }

    fn output(&mut self, _: Pid) -> Result<super::Output, TagError> {
        Ok(super::Output::None)
    }

    fn output_unused(&mut self, _: Pid) {}

    fn untagged(&mut self, _: Pid, _: &std::path::Path, _: &TagError) {}
}
