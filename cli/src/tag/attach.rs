//! `hmtt tag attach`: tags the functions of a running process.

use anyhow::Result;
use hmtt_probe::control::Start;
use hmtt_probe::ptrace::Process;
use nix::unistd::Pid;

use super::options::TagOptions;
use super::process_tree::{self, Starts};

/// Tag the functions of a running process until Ctrl-C, or until it ends
#[derive(clap::Args)]
pub struct Attach {
    #[command(flatten)]
    options: TagOptions,
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Tags the process until the process ends or a signal asks to detach. Returns whether events or
/// counts were lost.
pub fn run(Attach { options, pid }: &Attach) -> Result<bool> {
    let prepared = options.prepare()?;
    let process = Process::attach_checked(Pid::from_raw(*pid), options.force)?;
    let starts = Starts { first: Start::Now, executed: Start::Main };
    process_tree::run(process, options, starts, prepared)
}
