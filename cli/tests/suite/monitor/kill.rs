//! Kills or ends `hmtt monitor run`, or stops the program, at many moments: the program continues,
//! with unchanged output.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::crowds::CROWDS;
use super::survived::SURVIVES;
use super::{BUSY, SPAWNS, TIMERS, hmtt_monitor};
use crate::tag::build;
use crate::{from_environment, scratch, wait_for};

/// Number of times for each signal, unless this environment variable has another one.
const TIMES: u32 = 12;
const MORE_TIMES: &str = "HMTT_LONG_KILLS";
/// Longest run of a program that was stopped and continued. Without a fault it takes seconds.
const LONGEST_RUN: Duration = Duration::from_secs(300);
/// Most time for all repetitions of a signal, if their number is not given.
const LIMIT: Duration = Duration::from_secs(20);

/// Begins to monitor a program. `name`: that of the test's files.
fn start(program: &Path, words: &[&str], name: &str) -> Child {
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o"]);
    command.arg(scratch(&format!("monitor-{name}.json"))).arg("--").arg(program).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the controller has started the program. Returns its process.
fn wait_for_start(monitor: &mut Child, program: &Path) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", monitor.id());
    let program = program.canonicalize().unwrap();
    let mut child = String::new();
    wait_for(monitor, "the program was started", || {
        child = std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        // The first thread may have ended, and others go on.
        let threads = std::fs::read_dir(format!("/proc/{child}/task")).into_iter().flatten();
        let mut started = threads.flatten().map(|one| std::fs::read_link(one.path().join("exe")));
        started.any(|started| started.is_ok_and(|started| started == program))
    });
    Pid::from_raw(child.parse().unwrap())
}

/// Sends a signal to the controller some time after it has started the program. Returns what the
/// program has written, to its end.
fn output_after(
    (program, words): (&Path, &[&str]),
    name: &str,
    signal: Signal,
    after: Duration,
) -> String {
    let mut monitor = start(program, words, name);
    wait_for_start(&mut monitor, program);
    std::thread::sleep(after);
    let _ = kill(Pid::from_raw(monitor.id().cast_signed()), signal);
    let mut text = String::new();
    // The program has the other end of this pipe, until it ends.
    monitor.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    monitor.wait().unwrap();
    text
}

fn goes_on(signal: Signal, name: &str, source: &str, words: &[&str]) {
    let Some(program) = build(&format!("monitor-{name}"), source, &[]) else { return };
    let plain = Command::new(&program).args(words).output().unwrap();
    let expected = String::from_utf8(plain.stdout).unwrap();
    let begin = Instant::now();
    let file = format!("{name}-{signal}");
    let whole = start(&program, words, &file).wait_with_output().unwrap();
    assert_eq!(String::from_utf8(whole.stdout).unwrap(), expected);
    let time = begin.elapsed();
    let given = from_environment(MORE_TIMES);
    let times = given.map_or(TIMES, |times| times as u32);
    for number in 0..times {
        // A fraction of the time that a whole run takes: from before the program starts until it
        // ends.
        let after = time * (number * 7 % times) / times;
        let output = output_after((&program, words), &file, signal, after);
        assert_eq!(output, expected, "{name}: {signal} after {after:?}");
        if given.is_none() && begin.elapsed() > LIMIT {
            println!("{} of {times} repetitions within {LIMIT:?}", number + 1);
            break;
        }
    }
}

#[test]
fn a_program_continues_whenever_the_controller_is_killed() {
    goes_on(Signal::SIGKILL, "busy", BUSY, &["signals"]);
}

/// Signals are deferred half of the time. If the controller is killed while a thread with deferred
/// signals starts another one, or a process, they stay blocked (docs/monitor.md, *Limits*), so the
/// program does not.
#[test]
fn deferred_signals_arrive_whenever_the_controller_is_killed() {
    goes_on(Signal::SIGKILL, "timers", TIMERS, &["20", "100", "alone"]);
}

#[test]
fn deferred_signals_arrive_whenever_the_controller_is_asked_to_end() {
    goes_on(Signal::SIGTERM, "timers", TIMERS, &["20", "100"]);
}

#[test]
fn a_program_continues_natively_whenever_the_controller_is_asked_to_end() {
    goes_on(Signal::SIGTERM, "busy", BUSY, &["signals"]);
}

#[test]
fn a_program_that_starts_others_continues_whenever_the_controller_is_asked_to_end() {
    goes_on(Signal::SIGTERM, "spawns", SPAWNS, &["60"]);
}

#[test]
fn a_program_that_starts_others_continues_whenever_the_controller_is_killed() {
    goes_on(Signal::SIGKILL, "spawns", SPAWNS, &["60"]);
}

#[test]
fn a_program_whose_first_thread_ends_continues_whenever_the_controller_ends() {
    goes_on(Signal::SIGTERM, "survives", SURVIVES, &["20000000"]);
    goes_on(Signal::SIGKILL, "survives", SURVIVES, &["20000000"]);
}

/// Stops and continues a program many times in quick succession. Checks that its output and exit
/// status equal those of a plain run.
fn is_stopped_and_continued(program: &Path, words: &[&str], name: &str) {
    /// Most stops.
    const STOPS: u64 = 200;
    let plain = Command::new(program).args(words).output().unwrap();
    let mut monitor = start(program, words, name);
    let pid = wait_for_start(&mut monitor, program);
    for number in 0..STOPS {
        if monitor.try_wait().unwrap().is_some() {
            break;
        }
        // Both fail if the program has just ended.
        let _ = kill(pid, Signal::SIGSTOP);
        std::thread::sleep(Duration::from_micros(100 * (number % 7)));
        let _ = kill(pid, Signal::SIGCONT);
        std::thread::sleep(Duration::from_micros(100 * (number % 11)));
    }
    let begin = Instant::now();
    while monitor.try_wait().unwrap().is_none() {
        if begin.elapsed() > LONGEST_RUN {
            let _ = kill(pid, Signal::SIGKILL);
            panic!("{name}: the program has not ended {LONGEST_RUN:?} after it was continued");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = monitor.wait_with_output().unwrap();
    assert_eq!(output.stdout, plain.stdout);
    assert_eq!(output.status.code(), plain.status.code());
}

#[test]
fn a_program_with_signals_can_be_stopped_and_continued() {
    let Some(program) = build("monitor-busy", BUSY, &[]) else { return };
    is_stopped_and_continued(&program, &["signals"], "stopped");
}

/// The first stop of some threads is a group-stop. It may end before they have mapped their areas.
#[test]
fn a_program_that_starts_threads_can_be_stopped_and_continued() {
    let Some(program) = build("monitor-stopped-crowds", CROWDS, &[]) else { return };
    for number in 0..10 {
        is_stopped_and_continued(&program, &["1", "60"], &format!("stopped-crowds-{number}"));
    }
}
