//! `hmtt monitor attach`: moves a running process into a code cache.

use anyhow::Result;
use hmtt_probe::ptrace::Process;
use nix::unistd::Pid;

use super::options::{MonitorOptions, Prepared};
use crate::tag::end::End;

/// Count every basic block that a running process executes, until Ctrl-C or until it ends
#[derive(clap::Args)]
pub struct Attach {
    #[command(flatten)]
    options: MonitorOptions,
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Follows the process until the process ends or a signal asks to detach. Returns whether counts
/// are missing.
pub fn run(Attach { options, pid }: &Attach) -> Result<bool> {
    let Prepared { options, mut outputs } = options.prepare(true)?;
    let process = Process::attach_checked(Pid::from_raw(*pid), false)?;
    hmtt_translator::control::attach(process, &options, &mut outputs)?;
    let finished = outputs.finish();
    // This command has not started the process, so the exit status of the process is not passed on.
    End::Status(0).exit_if_failed(finished.has_failed);
    Ok(finished.is_lost)
}
