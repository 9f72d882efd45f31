//! `hmtt monitor detach`: moves a process back to its original code.

use anyhow::{Result, bail};
use hmtt_probe::control::controller;
use nix::unistd::Pid;

use crate::tag::detach::ask;

/// End following a process: its threads continue in their original code
#[derive(clap::Args)]
pub struct Detach {
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Asks the process's controller to detach, and waits until it has.
pub fn run(Detach { pid }: &Detach) -> Result<()> {
    let pid = Pid::from_raw(*pid);
    match controller(pid)? {
        Some(tracer) => ask(pid, tracer),
        None => bail!("process {pid} is not followed"),
    }
}
