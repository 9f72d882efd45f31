//! `hmtt tag detach`: removes the tags from a process.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hmtt_probe::control::{AbandonedTags, controller};
use hmtt_probe::ptrace::{Process, command};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longest time that a controller may take to write its log and to detach.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Remove the tags from a process, whether its hmtt tag still runs or was killed
#[derive(clap::Args)]
pub struct Detach {
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Stops tagging a process.
pub fn run(Detach { pid }: &Detach) -> Result<()> {
    end(Pid::from_raw(*pid), "has no tags")
}

/// Asks the controller of a process to detach. If the controller was killed, removes the tags that
/// it has left. `nothing`: end of the error message if the process has neither a controller nor
/// tags.
pub fn end(pid: Pid, nothing: &str) -> Result<()> {
    match controller(pid)? {
        Some(tracer) => ask(pid, tracer),
        None => {
            let abandoned = AbandonedTags::find(Process::attach(pid)?)?;
            let is_nothing = abandoned.is_nothing();
            // The remains of injected system calls are removed even if there are no tags.
            let left = abandoned.restore()?;
            if is_nothing {
                bail!("process {pid} {nothing}");
            }
            if !left.is_nothing() {
                report!("hmtt: warning: {left}");
            }
            Ok(())
        }
    }
}

/// Asks the controller of a process to detach, and waits until the controller has detached.
/// `tracer`: the controller.
pub fn ask(pid: Pid, tracer: Pid) -> Result<()> {
    let program =
        |pid: Pid| -> Option<PathBuf> { std::fs::read_link(format!("/proc/{pid}/exe")).ok() };
    let is_ours = program(tracer).is_some_and(|path| {
        let ours = program(Pid::this());
        ours.and_then(|ours| ours.file_name().map(ToOwned::to_owned))
            == path.file_name().map(ToOwned::to_owned)
    });
    if !is_ours {
        let name = command(tracer);
        bail!("process {pid} is traced by process {tracer} ({name}), which is not hmtt");
    }
    kill(tracer, Signal::SIGINT)
        .with_context(|| format!("cannot ask process {tracer} to detach"))?;
    let start = Instant::now();
    while controller(pid).is_ok_and(|now| now == Some(tracer)) {
        if start.elapsed() > PATIENCE {
            bail!(
                "process {tracer} was asked to detach from process {pid} and has not done so yet"
            );
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
