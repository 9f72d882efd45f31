//! Detaches from a program whose thread is blocked in the kernel, where it cannot be stopped: the
//! program goes on.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tag::build;
use crate::{scratch, skipped, wait_for};

const BLOCKS: &str = include_str!("blocks.c");
/// What the program prints.
const CHILD: &str = "child 7\nworked\n";
const WRITTEN: &str = "written 1\nworked\n";
/// Status of the program if it cannot block its thread.
const CANNOT: i32 = 77;
/// Most time in which a command ends, on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Time after which a second signal ends a command that waits for a thread (docs/monitor.md).
const SECOND: Duration = Duration::from_millis(2100);
/// Exit status of a command whose results are not complete, and of one that has failed.
const INCOMPLETE: i32 = 3;
const FAILED: i32 = 1;

/// The ways to run a program.
const RUNS: [&[&str]; 4] = [
    &["monitor", "run"],
    &["monitor", "run", "-f"],
    &["trace", "run"],
    &["tag", "run", "-i", "main"],
];

/// State of the first thread of a process (proc(5), `stat`).
pub fn state(process: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim().chars().next()
}

/// Whether the first thread of a process is within write(2).
fn writes(process: Pid) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{process}/syscall"));
    call.is_ok_and(|call| call.starts_with(&format!("{} ", nix::libc::SYS_write)))
}

/// The first child of the first thread of a process.
pub fn child_of(process: i32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    children.unwrap_or_default().split_whitespace().next()?.parse().ok()
}

/// The process that a command has started, once its first thread is blocked; `None` if it has
/// ended. While it has tags, it is not in vfork(2), but stopped before.
fn blocked_child(command: &mut Child) -> Option<Pid> {
    let begin = Instant::now();
    while command.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < LIMIT, "the program does not block its thread");
        let child = child_of(command.id().cast_signed()).map(Pid::from_raw);
        // It stays blocked, unlike in a short wait.
        let is_blocked = |child: &Pid| {
            (0..20).all(|_| {
                std::thread::sleep(Duration::from_millis(5));
                child_of(child.as_raw()).is_some() || writes(*child)
            })
        };
        if let Some(child) = child.filter(is_blocked) {
            return Some(child);
        }
    }
    None
}

/// Waits until a command ends, which must not last for ever.
pub fn end_of(command: &mut Child, words: &[&str]) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = command.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > LIMIT {
            let _ = command.kill();
            panic!("{words:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn interrupt(command: &Child) {
    kill(Pid::from_raw(command.id().cast_signed()), Signal::SIGINT).unwrap();
}

/// Lets the blocked thread go on. Returns what the program prints, to its end.
pub fn rest_of(command: &mut Child) -> String {
    command.stdin.take().unwrap().write_all(b"x").unwrap();
    let mut text = String::new();
    command.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn start(program: &Path, words: &[&str], mode: &str) -> Child {
    let name = format!("blocked-{}-{mode}", words.join("-"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(words).arg("--overwrite").arg("-o").arg(scratch(&name)).arg("--");
    command.arg(program).arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

pub fn error_of(command: &mut Child) -> String {
    let mut text = String::new();
    let _ = command.stderr.take().map(|mut error| error.read_to_string(&mut text));
    text
}

#[test]
fn a_signal_detaches_from_a_program_whose_thread_waits_for_a_vfork_child() {
    let Some(program) = build("monitor-blocks", BLOCKS, &[]) else { return };
    for words in RUNS {
        let mut command = start(&program, words, "child");
        blocked_child(&mut command).unwrap();
        interrupt(&command);
        let status = end_of(&mut command, words);
        assert_eq!(status.code(), Some(0), "{words:?}: {}", error_of(&mut command));
        assert_eq!(rest_of(&mut command), CHILD, "{words:?}");
    }
}

#[test]
fn a_second_signal_leaves_a_program_whose_thread_does_not_stop() {
    let Some(program) = build("monitor-blocks", BLOCKS, &[]) else { return };
    for words in RUNS.into_iter().filter(|words| !words.contains(&"-f")) {
        let mut command = start(&program, words, "fault");
        if blocked_child(&mut command).is_none() {
            let status = command.wait().unwrap().code();
            assert_eq!(status, Some(CANNOT), "{words:?}: {}", error_of(&mut command));
            return skipped("this process may not use userfaultfd(2)");
        }
        interrupt(&command);
        std::thread::sleep(SECOND);
        assert_eq!(command.try_wait().unwrap(), None, "{words:?} waits for the thread");
        interrupt(&command);
        let status = end_of(&mut command, words);
        let expected = if words[0] == "tag" { FAILED } else { INCOMPLETE };
        assert_eq!(status.code(), Some(expected), "{words:?}: {}", error_of(&mut command));
        assert_eq!(rest_of(&mut command), WRITTEN, "{words:?}");
    }
}

#[test]
fn a_signal_ends_an_attachment_to_a_program_whose_thread_does_not_stop() {
    let Some(program) = build("monitor-blocks", BLOCKS, &[]) else { return };
    for words in [["monitor", "attach"], ["trace", "attach"], ["tag", "attach"]] {
        let mut running = Command::new(&program);
        running.arg("child").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = running.spawn().unwrap();
        let pid = Pid::from_raw(running.id().cast_signed());
        wait_for(&mut running, "its thread is blocked", || state(pid) == Some('D'));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(words).args(["--overwrite", "-o"]).arg(scratch("blocked-attach"));
        let mut command = command.arg(pid.to_string()).stderr(Stdio::piped()).spawn().unwrap();
        let status = format!("/proc/{pid}/status");
        let tracer = format!("TracerPid:\t{}\n", command.id());
        wait_for(&mut command, "the process is traced", || {
            std::fs::read_to_string(&status).is_ok_and(|text| text.contains(&tracer))
        });
        interrupt(&command);
        let status = end_of(&mut command, &words);
        let error = error_of(&mut command);
        assert_eq!(status.code(), Some(FAILED), "{words:?}: {error}");
        assert!(error.contains("does not stop"), "{words:?}: {error}");
        assert_eq!(rest_of(&mut running), CHILD, "{words:?}");
        assert_eq!(running.wait().unwrap().code(), Some(0));
    }
}
