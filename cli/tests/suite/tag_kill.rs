//! Kills `hmtt tag attach` at many moments: the program continues, and its code can be restored and
//! tagged again.

#[path = "../../../probe/tests/workload/mod.rs"]
mod workload;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hmtt_probe::control::controller;
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::Process;
use workload::Workload;

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, skipped, wait_for};

/// Counts what is wrong with the signals of fast timers.
const TIMERS: &str = include_str!("monitor/timers.c");
/// Number of kills for each kind of tagging and each program.
const KILLS: u32 = 40;

impl Workload {
    /// Starts to tag the workload.
    fn attach(&self, sink: &str) -> Child {
        let output = scratch(&format!("tag-lives-{}", self.pid()));
        let words = ["attach", "--sink", sink, "--full", "drop", "--overwrite", "-o"];
        let mut command = hmtt_tag(&words);
        let command = command.arg(output).arg(self.pid().to_string());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until a controller traces the workload.
    fn wait_for(&self, tag: &mut Child) {
        while controller(self.pid()).unwrap().is_none() {
            assert!(tag.try_wait().unwrap().is_none(), "{}", error_of(tag));
        }
    }

    /// Removes what a killed controller left, if it left anything.
    fn detach(&self) {
        let output = hmtt_tag(&["detach", &self.pid().to_string()]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || text.contains("has no tags"), "{text}");
        assert!(self.has_original_code());
    }
}

fn error_of(tag: &mut Child) -> String {
    let mut text = String::new();
    let _ = tag.stderr.take().map(|mut error| error.read_to_string(&mut text));
    text
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn kill(mut tag: Child) {
    tag.kill().unwrap();
    assert_eq!(tag.wait().unwrap().code(), None, "{}", error_of(&mut tag));
}

#[test]
fn a_program_continues_whenever_hmtt_tag_is_killed() {
    let Some(program) = build("tag-lives", workload::SOURCE, &[]) else { return };
    for words in [&[][..], &["computes"]] {
        let mut workload = Workload::start(Image::read(&program).unwrap(), words);
        if let Err(error) = Process::attach(workload.pid()).and_then(Process::detach) {
            skipped(error);
            return workload.end();
        }
        for sink in ["count", "log"] {
            let mut tag = workload.attach(sink);
            workload.wait_for(&mut tag);
            let start = Instant::now();
            while workload.has_original_code() {
                assert!(tag.try_wait().unwrap().is_none(), "{}", error_of(&mut tag));
            }
            let time = start.elapsed();
            kill(tag);
            for number in 0..KILLS {
                let mut tag = workload.attach(sink);
                // Kills before the controller starts, while it tags, and long after.
                if number > 3 {
                    workload.wait_for(&mut tag);
                }
                spin(time * number / (KILLS / 2));
                kill(tag);
                workload.answer(number as u8);
                if number % 3 != 0 {
                    workload.detach();
                    workload.answer(!number as u8);
                }
            }
            workload.detach();
        }
        // The last controller is not killed.
        let counts = scratch("tag-workload.json");
        let words = ["attach", "-o", counts.to_str().unwrap(), &workload.pid().to_string()];
        let mut tag = hmtt_tag(&words).spawn().unwrap();
        wait_for(&mut tag, "the program has tags", || {
            workload.answer(0);
            !workload.has_original_code()
        });
        workload.answer(1);
        workload.detach();
        assert!(tag.wait_with_output().unwrap().status.success());
        assert!(calls(&counts)["leaf"] > 0);
        workload.end();
    }
}

/// Threads are stopped before the delivery of signals when the controller is killed, and while it
/// makes their process execute system calls with all signals blocked.
#[test]
fn signals_of_timers_arrive_in_order_whenever_hmtt_tag_is_killed() {
    let Some(program) = build("tag-timers", TIMERS, &[]) else { return };
    let mut command = Command::new(program);
    let command = command.args(["8000", "100", "alone"]).stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let counts = scratch("tag-timers.json");
    for number in 0.. {
        if program.try_wait().unwrap().is_some() {
            break;
        }
        let words = ["attach", "-i", "*", "--overwrite", "-o", counts.to_str().unwrap()];
        let mut command = hmtt_tag(&words);
        let command = command.arg(program.id().to_string()).stderr(Stdio::null());
        let mut tag = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(number * 37 % 300));
        tag.kill().unwrap();
        tag.wait().unwrap();
    }
    let output = program.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with(": 0 masks, 0 orders, 0 calls, 0 causes, 0 counts\n"), "{text}");
}
