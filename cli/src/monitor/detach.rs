//! `hmtt monitor detach`: moves a process back to its original code.

use anyhow::Result;
use nix::unistd::Pid;

use crate::tag::detach::end;

/// End following a process, whether its hmtt still runs or was killed: its threads continue in
/// their original code
#[derive(clap::Args)]
pub struct Detach {
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Asks the process's controller to detach, and waits until it has detached. If the controller was
/// killed, removes its remains from the process.
pub fn run(Detach { pid }: &Detach) -> Result<()> {
    end(Pid::from_raw(*pid), "is not followed")
}
