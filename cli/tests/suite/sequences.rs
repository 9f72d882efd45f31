//! Tests that restartable sequences (rseq(2)) are aborted as in a plain run: no increment of a
//! program that counts in them is lost, whatever `hmtt` does to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tag::build;
use crate::{from_environment, scratch, skipped};

const SOURCE: &str = include_str!("sequences/counters.c");
/// How long `hmtt` is attached, and how often it attaches unless `HMTT_LONG_ATTACHMENTS` has
/// another number.
const ATTACHED: Duration = Duration::from_millis(150);
const TIMES: u64 = 3;

/// The programs: with a descriptor in the file, on the stack, and with code that is mapped at run
/// time.
fn programs() -> Option<[PathBuf; 3]> {
    Some([
        build("sequences-described", SOURCE, &["-DDESCRIBED"])?,
        build("sequences-stack", SOURCE, &[])?,
        build("sequences-copied", SOURCE, &["-DCOPIED"])?,
    ])
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits until a program counts. Returns whether it can.
fn is_counting(output: &mut impl BufRead) -> bool {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let is_counting = line == "counting\n";
    if !is_counting {
        skipped("the C library has registered no restartable sequences");
    }
    is_counting
}

/// Sends signals to threads of a program for a while.
fn send_signals(program: &mut Child, time: Duration) {
    let input = program.stdin.as_mut().unwrap();
    for thread in 0..8 {
        std::thread::sleep(time / 8);
        let _ = input.write_all(&[thread]);
    }
}

/// Ends a program, and checks what it prints.
fn check_sums(mut program: Child, mut output: impl Read, case: &str) {
    drop(program.stdin.take());
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "lost 0, inside 0\n", "{case}");
    // `hmtt` reports by 3 what has run natively.
    assert!(matches!(program.wait().unwrap().code(), Some(0 | 3)), "{case}");
}

/// Attaches a command of `hmtt` to a process, until something was done. Returns what the command
/// has led to.
pub fn attached(words: &[&str], pid: u32, meanwhile: impl FnOnce()) -> Output {
    let file = scratch(&format!("attached-{}-{pid}", words[0]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(words).args(["--overwrite", "-o"]).arg(file).arg(pid.to_string());
    let mut attached = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{pid}/status");
    let tracer = format!("TracerPid:\t{}\n", attached.id());
    // It may end at once, if it refuses the program.
    while attached.try_wait().unwrap().is_none()
        && !std::fs::read_to_string(&status).is_ok_and(|text| text.contains(&tracer))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    meanwhile();
    let _ = kill(Pid::from_raw(attached.id().cast_signed()), Signal::SIGINT);
    attached.wait_with_output().unwrap()
}

/// Attaches a command of `hmtt` to a program again and again.
fn check_attached(words: &[&str], program: &Path) {
    let case = format!("{words:?} {}", program.display());
    let mut running = start(&mut Command::new(program));
    let mut output = BufReader::new(running.stdout.take().unwrap());
    if !is_counting(&mut output) {
        running.wait().unwrap();
        return;
    }
    for _ in 0..from_environment("HMTT_LONG_ATTACHMENTS").unwrap_or(TIMES) {
        let pid = running.id();
        let result = attached(words, pid, || send_signals(&mut running, ATTACHED));
        let error = String::from_utf8_lossy(&result.stderr);
        let is_refused = error.contains("restartable sequence");
        assert!(matches!(result.status.code(), Some(0 | 3)) || is_refused, "{case}: {error}");
    }
    check_sums(running, output, &case);
}

/// Runs a program under a command of `hmtt`.
fn check_run(words: &[&str], program: &Path) {
    let case = format!("{words:?} {}", program.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    let file = scratch(&format!("sequences-run-{}", words[0]));
    command.args(words).args(["--overwrite", "-o"]).arg(file).arg("--").arg(program);
    let mut running = start(command.stderr(Stdio::piped()));
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    if line == "counting\n" {
        send_signals(&mut running, ATTACHED);
        return check_sums(running, output, &case);
    }
    let error = running.wait_with_output().unwrap().stderr;
    let error = String::from_utf8_lossy(&error);
    let is_refused = error.contains("restartable sequence");
    assert!(line == "no sequences\n" || is_refused, "{case}: {line}{error}");
}

#[test]
fn tags_lose_no_increment() {
    for program in programs().into_iter().flatten() {
        check_attached(&["tag", "attach"], &program);
        check_run(&["tag", "run"], &program);
    }
}

#[test]
fn monitors_lose_no_increment() {
    for program in programs().into_iter().flatten() {
        check_attached(&["monitor", "attach"], &program);
        check_run(&["monitor", "run"], &program);
    }
}

#[test]
fn traces_lose_no_increment() {
    for program in programs().into_iter().flatten() {
        check_attached(&["trace", "attach"], &program);
        check_run(&["trace", "run"], &program);
        check_run(&["trace", "run", "--sample", "20ms/20ms"], &program);
    }
}
