//! Records a program only part of the time. Between these times the program runs natively. The user
//! gives the lengths of the recorded and the native times, or they follow from a budget.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use hmtt_format::escape;
use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{Attached, Process, detach, wait_for_signal};
use hmtt_translator::control::{self, ControlError, FirstEnd, Left, Options};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::budget::Regulator;
use super::caches::TraceOutputs;
use crate::monitor::Followed;
use crate::tag::values::duration;
use crate::tag::warnings::chain;

/// Time between two checks whether a process that runs natively has ended.
const TICK: Duration = Duration::from_millis(10);

/// The lengths of the times in which a program is recorded and runs natively, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Length of each time in which the program is recorded.
    pub on: Duration,
    /// Length of each time in which the program runs natively.
    pub off: Duration,
}

impl std::str::FromStr for Sample {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (on, off) = text.split_once('/').context("two durations are expected, as 100ms/2s")?;
        Ok(Sample { on: time(on)?, off: time(off)? })
    }
}

/// Parses one of the two durations, which must be at least 1 ms.
fn time(text: &str) -> Result<Duration> {
    let time = duration(text).map_err(Error::msg)?;
    ensure!(time >= Duration::from_millis(1), "{text}: at least 1 ms is expected");
    Ok(time)
}

/// The rule that decides when a program is recorded.
pub enum Schedule {
    /// The user has given the lengths of the times.
    Fixed(Sample),
    /// A budget for the slowdown determines the lengths.
    Budget(Box<Regulator>),
}

impl Schedule {
    /// Length of the next time in which the program is recorded.
    pub fn on(&self) -> Duration {
        match self {
            Schedule::Fixed(sample) => sample.on,
            Schedule::Budget(regulator) => regulator.on(),
        }
    }

    /// Ends a time of recording. Returns the length of the following native time.
    fn off(&mut self, left: Left) -> Duration {
        match self {
            Schedule::Fixed(sample) => sample.off,
            Schedule::Budget(regulator) => regulator.pause(left),
        }
    }

    /// Starts a time of recording.
    pub fn begin(&mut self, pid: Pid) {
        if let Schedule::Budget(regulator) = self {
            regulator.begin(pid);
        }
    }
}

/// A process. Its start time distinguishes it from a later process with the same number.
struct Running {
    pid: Pid,
    /// Start time of the process in ticks since boot; `None` if it had already ended.
    started: Option<u64>,
}

/// Flag of a thread that is ending and executes no more of the program (Linux,
/// `include/linux/sched.h`, `PF_EXITING`).
const EXITING: u64 = 4;

/// Reads a `stat` file of proc(5). Returns whether the thread is ending or has ended, and the start
/// time in ticks. Returns `None` if there is no such file.
fn ending_and_start(path: &Path) -> Option<(bool, u64)> {
    // The program's name is in parentheses and may contain any bytes, so fields are counted after
    // the last parenthesis.
    let stat = std::fs::read(path).ok()?;
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = String::from_utf8_lossy(&stat[behind + 1..]).into_owned();
    let mut fields = fields.split_whitespace();
    // The fields have these numbers in proc(5): state 3, flags 9, start time 22.
    let state = fields.next()?;
    let flags: u64 = fields.nth(9 - 4)?.parse().ok()?;
    let is_ending = matches!(state, "Z" | "X") || flags & EXITING != 0;
    Some((is_ending, fields.nth(22 - 10)?.parse().ok()?))
}

impl Running {
    fn new(pid: Pid) -> Self {
        let stat = format!("/proc/{pid}/stat");
        Running { pid, started: ending_and_start(stat.as_ref()).map(|(_, started)| started) }
    }

    /// Whether the process is gone, or all of its threads are ending or have ended. Then it
    /// executes no more of the program.
    fn has_ended(&self) -> bool {
        let stat = format!("/proc/{}/stat", self.pid);
        let Some((_, started)) = ending_and_start(stat.as_ref()) else { return true };
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return true;
        };
        let is_ending =
            |stat: PathBuf| ending_and_start(&stat).is_none_or(|(is_ending, _)| is_ending);
        self.started != Some(started)
            || threads.flatten().all(|thread| is_ending(thread.path().join("stat")))
    }

    /// Detaches from the threads that this process still traces, so that they continue.
    fn release(&self) {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        for thread in threads.into_iter().flatten().flatten() {
            if let Some(thread) = thread.file_name().to_str().and_then(|name| name.parse().ok()) {
                let _ = detach(Pid::from_raw(thread), None);
            }
        }
    }
}

/// The end of a native time.
enum Native {
    /// The planned time is over.
    Over,
    Ended,
    /// A signal asks to detach.
    Signalled,
}

fn run_natively(running: &Running, off: Duration, options: &Options) -> io::Result<Native> {
    let mut waited = options.signals;
    waited.add(Signal::SIGCHLD);
    let begin = Instant::now();
    loop {
        let left = off.saturating_sub(begin.elapsed());
        if running.has_ended() {
            return Ok(Native::Ended);
        }
        if left.is_zero() {
            return Ok(Native::Over);
        }
        let signal = wait_for_signal(&waited, left.min(TICK))?;
        if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
            return Ok(Native::Signalled);
        }
    }
}

/// Continues with a process that was recorded once: runs it natively and records it in turn, until
/// it ends or a signal asks to detach. If the process cannot be followed any more, it continues
/// natively, and the rest of its accesses is missing.
///
/// # Errors
/// The process cannot be waited for.
pub fn go_on(
    followed: Followed,
    schedule: &mut Schedule,
    options: &Options,
    outputs: &mut TraceOutputs,
) -> Result<FirstEnd> {
    let end = go_on_until(followed, schedule, options, outputs)?;
    if let Schedule::Budget(regulator) = schedule {
        report!("hmtt: {}", regulator.summary());
    }
    Ok(end)
}

fn go_on_until(
    Followed { pid, first, risk_policy }: Followed,
    schedule: &mut Schedule,
    options: &Options,
    outputs: &mut TraceOutputs,
) -> Result<FirstEnd> {
    let running = Running::new(pid);
    let mut end = first;
    while let (true, Some(left)) = (end.is_time_over, end.left) {
        outputs.set_native_since(Some(left.at));
        let off = schedule.off(left);
        let gone = FirstEnd { goes_on: true, is_time_over: false, ..end };
        match run_natively(&running, off, options).context("cannot wait for the program")? {
            Native::Over => {}
            Native::Ended => return Ok(gone),
            Native::Signalled => return Ok(FirstEnd { goes_on: false, ..gone }),
        }
        schedule.begin(pid);
        let options = Options { at_most: Some(schedule.on()), ..options.clone() };
        let followed = match Process::attach_again(pid, risk_policy) {
            Ok(Attached::Stopped(process)) => control::attach(*process, &options, outputs),
            // The process has ended and was waited for. It cannot be waited for again, so its
            // status comes from here.
            Ok(Attached::Ended(status)) => {
                let ending = status.map_or_else(Ending::Signaled, Ending::Exited);
                Ok(FirstEnd { ending, goes_on: false, ..gone })
            }
            Err(error) => Err(ControlError::from(error)),
        };
        match followed {
            Ok(next) => end = next,
            Err(_) if running.has_ended() => end = gone,
            Err(error) => {
                running.release();
                outputs.set_native_since(None);
                outputs.set_lost();
                let why = chain(&error);
                let why = escape::message(&why);
                report!(
                    "hmtt: warning: the program goes on natively and is not recorded any more: {why}"
                );
                end = gone;
            }
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_two_durations() {
        let parse = |text: &str| text.parse::<Sample>().map_err(|error| format!("{error:#}"));
        let (on, off) = (Duration::from_millis(100), Duration::from_secs(2));
        assert_eq!(parse("100ms/2s"), Ok(Sample { on, off }));
        for (text, why) in [
            ("100ms", "two durations"),
            ("1/2s", "1: a time is a number followed by us, ms or s"),
            ("1ms/xs", "xs: a time is a number"),
            ("0ms/1s", "at least 1 ms"),
            ("1ms/999us", "at least 1 ms"),
            ("1ms/18446744073709551615s", "is not a valid time"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn only_processes_that_are_there_have_not_ended() {
        let own = Running::new(Pid::this());
        assert!(!own.has_ended());
        assert!(Running::new(Pid::from_raw(i32::MAX)).has_ended());
        // Another process has got the number of the ended process.
        let other = Running { started: own.started.map(|started| started + 1), ..own };
        assert!(other.has_ended());
    }

    #[test]
    fn names_of_programs_are_any_bytes() {
        use std::os::unix::ffi::OsStrExt;

        let folder = std::env::temp_dir().join(format!("hmtt-sampled-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join(std::ffi::OsStr::from_bytes(b"a) \xd0 sleeps"));
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("60").spawn().unwrap();
        let running = Running::new(Pid::from_raw(child.id().cast_signed()));
        assert!(!running.has_ended());
        child.kill().unwrap();
        while !running.has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(running.has_ended());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
