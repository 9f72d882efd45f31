//! Records a program from time to time: in between it runs natively.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hmtt_format::escape;
use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{Process, PtraceError, wait_for_signal};
use hmtt_translator::control::{self, ControlError, FirstEnd, Observer, Options};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::tag::warnings::chain;

/// How often is checked whether a process that runs natively has ended.
const TICK: Duration = Duration::from_millis(10);

/// For how long a program is recorded, and then runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// For how long it is recorded.
    pub on: Duration,
    /// For how long it runs natively.
    pub off: Duration,
}

impl std::str::FromStr for Sample {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (on, off) = text.split_once('/').context("two durations are expected, as 100ms/2s")?;
        Ok(Sample { on: duration(on)?, off: duration(off)? })
    }
}

/// A duration with its unit: ms or s.
fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (
            text.strip_suffix('s')
                .with_context(|| format!("{text} has no unit, as 100ms or 2s"))?,
            1000,
        ),
    };
    let number: u64 =
        number.parse().with_context(|| format!("{text} is no duration, as 100ms or 2s"))?;
    let milliseconds = number.checked_mul(unit).with_context(|| format!("{text} is too long"))?;
    ensure!(milliseconds > 0, "{text}: a duration of at least 1 ms is expected");
    Ok(Duration::from_millis(milliseconds))
}

/// Whether a process is gone, or waits for its parent as a zombie.
fn has_ended(pid: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name of the program is in parentheses, and may contain spaces.
    let state = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    state.starts_with(['Z', 'X'])
}

/// What has happened while a process ran natively.
enum Native {
    /// The time is over.
    Over,
    Ended,
    /// A signal asks to detach.
    Signalled,
}

fn run_natively(pid: Pid, off: Duration, options: &Options) -> io::Result<Native> {
    let mut waited = options.signals;
    waited.add(Signal::SIGCHLD);
    let begin = Instant::now();
    loop {
        let left = off.saturating_sub(begin.elapsed());
        if has_ended(pid) {
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

/// Goes on with a process that was recorded once, until it ends or a signal asks to detach. `first`: how recording it has
/// ended.
///
/// # Errors
/// It cannot be followed any more, for another reason than that it has ended.
pub fn go_on(
    pid: Pid,
    first: FirstEnd,
    sample: Sample,
    options: &Options,
    outputs: &mut impl Observer,
) -> Result<FirstEnd> {
    let mut end = first;
    let mut refused = 0u64;
    let mut why = String::new();
    while end.is_time_over {
        let gone = FirstEnd { ending: Ending::Detached, goes_on: true, is_time_over: false };
        match run_natively(pid, sample.off, options).context("cannot wait for the program")? {
            Native::Over => {}
            Native::Ended => {
                end = gone;
                break;
            }
            Native::Signalled => {
                end = FirstEnd { goes_on: false, ..gone };
                break;
            }
        }
        let followed = Process::attach_checked(pid, false).map_err(ControlError::from);
        match followed.and_then(|process| control::attach(process, options, outputs)) {
            Ok(next) => end = next,
            Err(_) if has_ended(pid) => end = gone,
            Err(ControlError::Ptrace(PtraceError::Ended(_))) => end = gone,
            Err(error) => (refused, why) = (refused + 1, chain(&error)),
        }
    }
    if refused > 0 {
        let why = escape::message(&why);
        report!(
            "hmtt: warning: the program could not be followed {refused} times, the last time because {why}"
        );
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
            ("1/2s", "1 has no unit"),
            ("1ms/xs", "xs is no duration"),
            ("0ms/1s", "at least 1 ms"),
            ("1ms/18446744073709551615s", "too long"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn only_processes_that_are_there_have_not_ended() {
        assert!(!has_ended(Pid::this()));
        assert!(has_ended(Pid::from_raw(i32::MAX)));
    }
}
