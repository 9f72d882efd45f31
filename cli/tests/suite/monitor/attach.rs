//! Attaches to a running program and detaches from it, many times: it continues with unchanged
//! output.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{BUSY, hmtt_monitor};
use crate::scratch;
use crate::tag::build;

/// Rounds of the program's work, which take longer than the attachments.
const ROUNDS: &str = "600";
/// Most attachments, and most time for them.
const TIMES: u32 = 30;
const LIMIT: Duration = Duration::from_secs(20);

fn start(program: &std::path::Path) -> Child {
    Command::new(program).args(["signals", ROUNDS]).stdout(Stdio::piped()).spawn().unwrap()
}

/// Attaches to a process. Returns the command once the process is traced by it, or `None` if the
/// process has ended.
fn attach(program: &mut Child, file: &std::path::Path) -> Option<Child> {
    let mut command = hmtt_monitor(&["attach", "--overwrite", "-o"]);
    command.arg(file).arg(program.id().to_string()).stderr(Stdio::piped());
    let mut monitor = command.spawn().unwrap();
    let status = format!("/proc/{}/status", program.id());
    let tracer = format!("TracerPid:\t{}\n", monitor.id());
    while program.try_wait().unwrap().is_none() && monitor.try_wait().unwrap().is_none() {
        if std::fs::read_to_string(&status).is_ok_and(|text| text.contains(&tracer)) {
            return Some(monitor);
        }
        std::thread::yield_now();
    }
    monitor.wait().unwrap();
    None
}

#[test]
fn a_running_program_continues_whenever_a_monitor_attaches_and_detaches() {
    let Some(program) = build("monitor-busy", BUSY, &[]) else { return };
    let plain = Command::new(&program).args(["signals", ROUNDS]).output().unwrap();
    let file = scratch("monitor-attached.json");
    let (begin, mut executed) = (Instant::now(), 0);
    let mut running = start(&program);
    for number in 0..TIMES {
        let Some(monitor) = attach(&mut running, &file) else { break };
        std::thread::sleep(Duration::from_millis(u64::from(number * 7 % 40)));
        if number % 2 == 0 {
            let _ = kill(Pid::from_raw(monitor.id().cast_signed()), Signal::SIGINT);
        } else {
            let pid = running.id().to_string();
            hmtt_monitor(&["detach", &pid]).stderr(Stdio::null()).status().unwrap();
        }
        let output = monitor.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{error}");
        let profile: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        executed += profile["blocks"].as_array().unwrap().len();
        if begin.elapsed() > LIMIT {
            println!("{} of {TIMES} attachments within {LIMIT:?}", number + 1);
            break;
        }
    }
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.stdout, plain.stdout);
    assert_eq!(output.status.code(), plain.status.code());
    assert!(executed > 0, "no block was counted");
}

#[test]
fn a_program_continues_if_the_attached_monitor_is_killed() {
    let Some(program) = build("monitor-busy", BUSY, &[]) else { return };
    let plain = Command::new(&program).args(["signals", "60"]).output().unwrap();
    for number in 0..5 {
        let mut command = Command::new(&program);
        let mut running = command.args(["signals", "60"]).stdout(Stdio::piped()).spawn().unwrap();
        if let Some(mut monitor) = attach(&mut running, &scratch("monitor-killed.json")) {
            std::thread::sleep(Duration::from_millis(number * 11));
            monitor.kill().unwrap();
            monitor.wait().unwrap();
        }
        let output = running.wait_with_output().unwrap();
        assert_eq!(output.stdout, plain.stdout);
        assert_eq!(output.status.code(), plain.status.code());
    }
}

#[test]
fn a_process_that_cannot_be_monitored_is_refused_and_continues() {
    let message = |words: &[&str]| {
        let output = hmtt_monitor(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let own = std::process::id().to_string();
    assert!(message(&["detach", &own]).contains("is not followed"));
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let pid = ended.id().to_string();
    assert!(message(&["attach", &pid]).contains(&pid));
}
