//! `hmtt monitor run`: runs a program from a code cache.

use std::ffi::OsString;

use anyhow::Result;
use hmtt_probe::ptrace::{self, RiskPolicy, wait_for_end, wait_for_end_or_signal};
use hmtt_translator::control::{FirstEnd, Observer, Options};
use nix::unistd::Pid;

use super::options::{MonitorOptions, Prepared};
use super::outputs::Finished;
use crate::tag::end::End;

/// Run a program and count every basic block that it executes
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    options: MonitorOptions,
    /// The program and its arguments
    #[arg(value_name = "PROG", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// Runs the program until it ends. Then this process ends with the program's exit status or signal,
/// or returns if the program has succeeded. Returns whether counts are missing.
pub fn run(Run { options, program }: &Run) -> Result<bool> {
    let Prepared { options, mut outputs } = options.prepare(false)?;
    run_to_end(program, &options, &mut outputs, |one, _| Ok(one.first), |outputs| outputs.finish())
}

/// A process that was followed until a first end: its own end, a request to detach, or the end of
/// the time.
#[derive(Clone, Copy)]
pub struct Followed {
    pub pid: Pid,
    /// Reason for the first end, and state of the process at that end.
    pub first: FirstEnd,
    /// Risks that the user has accepted, which a further attach needs again.
    pub risk_policy: RiskPolicy,
}

/// Runs a program until it ends. Then this process ends with the program's exit status or signal,
/// or returns if the program has succeeded. `go_on`: follows the program further after the first
/// end. `finish`: completes the outputs. Returns whether counts are missing.
pub fn run_to_end<O: Observer>(
    program: &[OsString],
    options: &Options,
    outputs: &mut O,
    go_on: impl FnOnce(Followed, &mut O) -> Result<FirstEnd>,
    finish: impl FnOnce(&mut O) -> Finished,
) -> Result<bool> {
    let process = ptrace::launch(program)?;
    let (pid, risk_policy) = (process.pid, process.risk_policy);
    let first = hmtt_translator::control::run(process, options, outputs)?;
    let end = go_on(Followed { pid, first, risk_policy }, outputs)?;
    let FirstEnd { ending, goes_on, is_time_over, .. } = end;
    let mut finished = finish(outputs);
    // The program is still a child of this process, and its exit status becomes the status of this
    // command.
    let waited = match (goes_on, is_time_over) {
        (true, _) => Some(wait_for_end(pid)),
        // A signal asks to detach, as it does while the program is followed.
        (false, true) => wait_for_end_or_signal(pid).map(Some),
        (false, false) => None,
    };
    let end = match waited {
        Some(Some(Ok(code))) => End::Status(code),
        Some(Some(Err(signal))) => End::Signal(signal),
        Some(None) => {
            report!("hmtt: warning: it is not known how the program has ended");
            finished.is_lost = true;
            End::from_ending(ending)
        }
        None => End::from_ending(ending),
    };
    end.exit_if_failed(finished.has_failed);
    Ok(finished.is_lost)
}
