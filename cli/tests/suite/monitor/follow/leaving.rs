//! Attaches to processes with their children, detaches from them and kills the controller: all
//! continue.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{FOLLOWS, Image, SCRIPT, profiles, seen, sorted};
use crate::monitor::hmtt_monitor;
use crate::tag::build;
use crate::wait_for;

/// Attaches to a process with its children until `end` has been called. Returns whether that
/// process still ran.
fn attach(program: &mut Child, file: &Path, end: impl FnOnce(Pid)) -> bool {
    let mut command = hmtt_monitor(&["attach", "-f", "--overwrite", "-o"]);
    command.arg(file).arg(program.id().to_string()).stderr(Stdio::piped());
    let mut monitor = command.spawn().unwrap();
    let status = format!("/proc/{}/status", program.id());
    let tracer = format!("TracerPid:\t{}\n", monitor.id());
    while !std::fs::read_to_string(&status).is_ok_and(|text| text.contains(&tracer)) {
        let is_over =
            program.try_wait().unwrap().is_some() || monitor.try_wait().unwrap().is_some();
        if is_over {
            monitor.wait().unwrap();
            return false;
        }
        std::thread::yield_now();
    }
    end(Pid::from_raw(monitor.id().cast_signed()));
    let output = monitor.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    true
}

#[test]
fn a_running_process_and_its_later_children_are_followed_until_the_monitor_detaches() {
    /// Attachments, few enough that memory that cannot be removed leaves addresses for the next.
    const TIMES: u64 = 8;
    let script = "for i in $(seq 300); do (exit 3) | cat; x=$(echo $i | tr 0-9 a-j); echo $x $?; done; exit 6";
    let plain = Command::new("bash").args(["-c", script]).output().unwrap();
    let mut command = Command::new("bash");
    let mut running = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    // What it writes is less than a pipe holds.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    for number in 0..TIMES {
        let pid = running.id().to_string();
        let is_running = attach(&mut running, &file, |monitor| {
            let (begin, before) = (Instant::now(), profiles(folder.path()).len());
            let grown = || profiles(folder.path()).len() > before + 8;
            while begin.elapsed() < Duration::from_secs(5) && !grown() {
                std::thread::sleep(Duration::from_millis(3 + number));
            }
            if number % 2 == 0 {
                kill(monitor, Signal::SIGINT).unwrap();
            } else {
                hmtt_monitor(&["detach", &pid]).stderr(Stdio::null()).status().unwrap();
            }
        });
        if !is_running {
            break;
        }
    }
    let output = running.wait_with_output().unwrap();
    assert_eq!(seen(&output), seen(&plain));
    let images: Vec<Image> = profiles(folder.path()).iter().map(|one| Image::read(one)).collect();
    assert!(images.iter().any(|image| image.has("/tr")), "{}", images.len());
    assert!(images.iter().filter(|image| image.has("/cat")).count() > 2);
}

/// Waits until the controller has started the program. Before that, it may be the end of both.
fn wait_for_program(monitor: &mut Child) {
    let children = format!("/proc/{0}/task/{0}/children", monitor.id());
    let own = Path::new(env!("CARGO_BIN_EXE_hmtt")).canonicalize().unwrap();
    wait_for(monitor, "the program was started", || {
        let child = std::fs::read_to_string(&children).unwrap_or_default();
        let program = std::fs::read_link(format!("/proc/{}/exe", child.trim()));
        program.is_ok_and(|program| program != own)
    });
}

/// Sends a signal to the controller some time after it has started the program. Returns what the
/// processes have written, to their end.
fn output_after(words: &[&str], file: &Path, signal: Signal, after: Duration) -> String {
    let mut command = hmtt_monitor(&["run", "-f", "--overwrite", "-o"]);
    command.arg(file).arg("--").args(words).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut monitor = command.spawn().unwrap();
    wait_for_program(&mut monitor);
    std::thread::sleep(after);
    let _ = kill(Pid::from_raw(monitor.id().cast_signed()), signal);
    let mut text = String::new();
    // All processes have the other end of this pipe.
    monitor.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    monitor.wait().unwrap();
    text
}

fn go_on(signal: Signal) {
    /// Number of times.
    const TIMES: u32 = 16;
    /// Most time for all repetitions.
    const LIMIT: Duration = Duration::from_secs(30);
    let Some(program) = build("monitor-follows", FOLLOWS, &["-w"]) else { return };
    let program = program.to_str().unwrap();
    let commands: [&[&str]; 2] = [&["bash", "-c", SCRIPT], &[program]];
    let begin = Instant::now();
    for words in commands {
        let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
        let lines = |text: String| sorted((None, text)).1;
        let expected = lines(String::from_utf8(plain.stdout).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile");
        let start = Instant::now();
        assert_eq!(lines(output_after(words, &file, signal, LIMIT / 15)), expected);
        let time = start.elapsed().min(Duration::from_millis(700));
        for number in 0..TIMES {
            let after = time * (number * 7 % TIMES) / TIMES;
            let output = lines(output_after(words, &file, signal, after));
            assert_eq!(output, expected, "{} {signal} after {after:?}", words[0]);
            if begin.elapsed() > LIMIT {
                println!("{} of {TIMES} repetitions within {LIMIT:?}", number + 1);
                break;
            }
        }
    }
}

#[test]
fn all_processes_continue_whenever_the_controller_is_killed() {
    go_on(Signal::SIGKILL);
}

#[test]
fn all_processes_continue_natively_whenever_the_controller_is_asked_to_end() {
    go_on(Signal::SIGTERM);
}
