//! Finds out why a process cannot be traced, and what the user can do about it.
//!
//! The kernel returns `EPERM` for almost every reason. The files of `/proc` and the system's
//! configuration distinguish the cases. They are read only before an attachment or after one has
//! failed.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;

use hmtt_format::escape;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::wait::is_dead;
use super::{live_thread, status_number, tracer};
use crate::elf::script;
use crate::regular_file;

/// Setting of the Yama security module that restricts tracing.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Reason why a process cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no process with this number.
    Missing,
    /// The number belongs to a thread of this other process.
    Thread(Pid),
    /// The process has ended, and its parent has not read its status.
    Zombie,
    /// The process is a kernel thread.
    Kernel,
    /// The process is this program itself.
    Ourselves,
    /// Another process traces the process: its number and its name.
    Traced(Pid, String),
    /// This program lacks a permission.
    Rights(MissingRight),
}

/// A permission to trace that this program lacks, with the way to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingRight {
    /// No process may be traced until the next boot.
    #[error("{YAMA} is 3, which forbids all tracing until the next boot")]
    TracingOff,
    /// The process belongs to another user. The user's number is known if the process still exists.
    #[error("it is another user's{}; run hmtt as that user or as root (CAP_SYS_PTRACE)",
        .0.map_or_else(String::new, |uid| format!(" (uid {uid})")))]
    OtherUser(Option<i32>),
    /// Only root may trace.
    #[error("{YAMA} is 2, so that only root (CAP_SYS_PTRACE) may trace; run hmtt as root")]
    RootOnly,
    /// Only parents may trace their children.
    #[error(
        "{YAMA} is 1, so that only parents may trace; run hmtt as root (CAP_SYS_PTRACE), write 0 there, or start \
         the program by hmtt tag run"
    )]
    ParentsOnly,
    /// The kernel does not show which permission is missing.
    #[error(
        "it has more rights than this hmtt, or does not let itself be dumped (PR_SET_DUMPABLE), or a security \
         policy forbids it; run hmtt as root (CAP_SYS_PTRACE)"
    )]
    Unknown,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Missing => write!(f, "there is no process with this number"),
            Obstacle::Thread(process) => {
                write!(f, "it is a thread of process {process}; give that number")
            }
            Obstacle::Zombie => {
                write!(f, "it has ended (a zombie: its parent has not read its status yet)")
            }
            Obstacle::Kernel => write!(f, "it is a kernel thread, not a program"),
            Obstacle::Ourselves => write!(f, "it is this hmtt itself"),
            Obstacle::Traced(tracer, name) => {
                write!(f, "process {tracer} ({name}) traces it already; a process has one tracer")
            }
            Obstacle::Rights(needed) => write!(f, "it may not be traced: {needed}"),
        }
    }
}

/// Finds an obstacle to tracing a process, as far as `/proc` shows it without an attempt.
pub fn obstacle(pid: Pid) -> Option<Obstacle> {
    let Some(process) = status_number(pid, "Tgid:") else { return Some(Obstacle::Missing) };
    if pid == Pid::this() {
        return Some(Obstacle::Ourselves);
    }
    if process != pid {
        return Some(Obstacle::Thread(process));
    }
    let thread = live_thread(pid);
    match tracer(pid) {
        _ if is_dead(thread) => Some(Obstacle::Zombie),
        _ if is_kernel_thread(thread) => Some(Obstacle::Kernel),
        Some(tracer) if tracer.as_raw() != 0 => Some(Obstacle::Traced(tracer, command(tracer))),
        _ => None,
    }
}

/// Finds the obstacle after the kernel has refused an attempt to trace a process.
pub(super) fn refused(pid: Pid, error: Errno) -> Option<Obstacle> {
    let seen = obstacle(pid);
    match error {
        Errno::EPERM | Errno::EACCES => Some(seen.unwrap_or_else(|| rights(pid))),
        Errno::ESRCH => seen,
        _ => None,
    }
}

/// Whether a process is a kernel thread. A kernel thread has no memory of its own, so `status`
/// states no size.
fn is_kernel_thread(pid: Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !text.is_empty() && !text.lines().any(|line| line.starts_with("VmSize:"))
}

/// Name of a process, escaped for printing.
pub fn command(pid: Pid) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    escape::name(&String::from_utf8_lossy(name.trim_ascii_end())).to_string()
}

/// Finds the missing permission to trace a process that has no tracer.
fn rights(pid: Pid) -> Obstacle {
    let uid = |pid| status_number(pid, "Uid:").map(Pid::as_raw);
    let (its, ours) = (uid(pid), uid(Pid::this()));
    let yama = fs::read_to_string(YAMA).ok().and_then(|text| text.trim().parse::<i32>().ok());
    Obstacle::Rights(match yama {
        Some(3) => MissingRight::TracingOff,
        _ if its != ours => MissingRight::OtherUser(its),
        Some(2) => MissingRight::RootOnly,
        Some(1) => MissingRight::ParentsOnly,
        _ => MissingRight::Unknown,
    })
}

/// Explains why a program cannot be started, where the system's error text does not.
pub(super) fn launch_hint(program: &Path, error: Errno) -> Option<String> {
    let status = fs::metadata(program).ok()?;
    match error {
        Errno::EACCES if status.is_dir() => Some("it is a directory".into()),
        Errno::EACCES if !status.is_file() => Some("it is not a regular file".into()),
        Errno::EACCES => Some(
            "it is not executable for this user (chmod +x), or a directory on the way may not be entered, or its file \
             system is mounted noexec"
                .into(),
        ),
        Errno::ENOENT => Some(match interpreter(program) {
            Some(interpreter) => format!("it is a script, and its interpreter {interpreter} is missing"),
            None => "the program exists, and the dynamic linker that it names is missing".into(),
        }),
        Errno::ENOEXEC => Some("it is neither an ELF program nor a script that begins with `#!`".into()),
        _ => None,
    }
}

/// The interpreter that a script names in its first line.
fn interpreter(program: &Path) -> Option<String> {
    let mut line = Vec::new();
    regular_file::open(program)
        .ok()?
        .take(script::LINE_BYTES as u64)
        .read_to_end(&mut line)
        .ok()?;
    script::interpreter(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacles_are_told_apart() {
        assert_eq!(obstacle(Pid::from_raw(i32::MAX)), Some(Obstacle::Missing));
        assert_eq!(obstacle(Pid::this()), Some(Obstacle::Ourselves));
        let thread = std::thread::spawn(|| obstacle(nix::unistd::gettid())).join().unwrap();
        assert_eq!(thread, Some(Obstacle::Thread(Pid::this())));
    }

    #[test]
    fn a_zombie_is_an_obstacle() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        while super::super::wait::state(pid) != Some(b'Z') {
            std::thread::yield_now();
        }
        assert_eq!(obstacle(pid), Some(Obstacle::Zombie));
        child.wait().unwrap();
        assert_eq!(obstacle(pid), Some(Obstacle::Missing));
    }
}
