//! `hmtt trace attach`: records the accesses of a running process.

use anyhow::Result;
use hmtt_probe::ptrace::{Process, RiskPolicy};
use nix::unistd::Pid;

use super::options::{Prepared, TraceOptions};
use super::sampled;
use crate::monitor::Followed;
use crate::tag::end::End;

/// Record the accesses to memory that a running process makes, until Ctrl-C or until it ends
#[derive(clap::Args)]
pub struct Attach {
    #[command(flatten)]
    options: TraceOptions,
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Follows the process until the process ends or a signal asks to detach. Returns whether accesses
/// are missing.
pub fn run(Attach { options, pid }: &Attach) -> Result<bool> {
    let Prepared { options, mut outputs, mut schedule } = options.prepare(false, None)?;
    let pid = Pid::from_raw(*pid);
    schedule.iter_mut().for_each(|schedule| schedule.begin(pid));
    let process = Process::attach_checked(pid, false)?;
    let first = hmtt_translator::control::attach(process, &options, &mut outputs)?;
    if let Some(schedule) = &mut schedule {
        let risk_policy = RiskPolicy::default();
        let followed = Followed { pid, first, risk_policy };
        sampled::go_on(followed, schedule, &options, &mut outputs)?;
    }
    let finished = outputs.finish();
    // This command has not started the process, so the exit status of the process is not passed on.
    End::Status(0).exit_if_failed(finished.has_failed);
    Ok(finished.is_lost)
}
