//! Measures the wall time, processor time and memory of a command.

use std::io::{self, Read};
use std::mem::zeroed;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Resources that a process used.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Time from start to end in seconds.
    pub wall: f64,
    /// Processor time in user mode and in the kernel, in seconds.
    pub cpu: f64,
    /// Maximum resident memory in bytes.
    pub memory: u64,
    /// The standard output.
    pub output: String,
}

/// A running process that is measured.
pub struct Measured {
    child: Child,
    begin: Instant,
}

impl Measured {
    /// Starts a process and captures its output.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        Ok(Measured { child, begin: Instant::now() })
    }

    /// Sends SIGINT to the process.
    pub fn interrupt(&self) {
        // SAFETY: the call accesses no memory; the process is our child and has not been waited
        // for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
    }

    /// Waits for the end of the process.
    pub fn finish(mut self) -> io::Result<Taken> {
        let mut output = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            stdout.read_to_string(&mut output)?;
        }
        let (mut status, pid) = (0, self.child.id() as libc::pid_t);
        // SAFETY: a C structure of integers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { zeroed() };
        // SAFETY: the kernel writes to an integer and to the structure, which outlive the call.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let seconds = |time: libc::timeval| {
            Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000).as_secs_f64()
        };
        Ok(Taken {
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            wall: self.begin.elapsed().as_secs_f64(),
            cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            memory: usage.ru_maxrss as u64 * 1024,
            output,
        })
    }
}

/// Runs a command to its end.
pub fn measure(command: &mut Command) -> io::Result<Taken> {
    Measured::start(command)?.finish()
}
