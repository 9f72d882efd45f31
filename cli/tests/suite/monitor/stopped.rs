//! Stops and continues a program under `hmtt monitor run` at many moments: its output is unchanged.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::crowds::CROWDS;
use super::{BUSY, hmtt_monitor};
use crate::tag::build;
use crate::{scratch, wait_for};

/// Longest run of a program that was stopped and continued. Without a fault it takes seconds.
const LONGEST_RUN: Duration = Duration::from_secs(300);

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
        let mut started =
            threads.flatten().map(|thread| std::fs::read_link(thread.path().join("exe")));
        started.any(|started| started.is_ok_and(|started| started == program))
    });
    Pid::from_raw(child.parse().unwrap())
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
