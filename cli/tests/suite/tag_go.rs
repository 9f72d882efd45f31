//! Tests `hmtt tag` on programs of Go: goroutines, moving stacks, panics and the garbage collector
//! work as without tags, and every call is counted once.
//!
//! `HMTT_LONG=RUNS` repeats each case this many times.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::built::built;
use crate::scratch;
use crate::tag::{calls, hmtt_tag};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/tag_go");
/// Default number of runs of each case.
const RUNS: usize = 2;
/// Number of times that a process is attached to and detached from.
const ATTACHED: usize = 3;
/// Pause between checks whether the process is traced.
const PAUSE: Duration = Duration::from_millis(5);
/// Time during which the process stays tagged.
const TAGGED_TIME: Duration = Duration::from_millis(200);

/// Builds a program of Go; `None` if the test is skipped.
fn build(name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    built(name, &format!("{flags:?} {source}"), |program| {
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go-cache");
        let mut command = Command::new("go");
        command.env("GOCACHE", cache).env("GO111MODULE", "off").arg("build").args(flags);
        command.arg("-o").arg(program).arg(format!("{FOLDER}/{source}"));
        command
    })
}

fn runs() -> usize {
    std::env::var("HMTT_LONG").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

/// Panics unless a tagged run behaves like an untagged one, and each function was called as often
/// as the program prints.
fn check(plain: &Output, tagged: &Output, counted: impl Fn(&str) -> Option<u64>) {
    let printed = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(tagged.status.code(), plain.status.code(), "{printed}");
    let output = String::from_utf8_lossy(&tagged.stdout);
    // Goroutines are scheduled differently in each run, but their results are equal.
    assert_eq!(output, String::from_utf8_lossy(&plain.stdout), "{printed}");
    for line in output.lines().skip(1) {
        let (name, own) = line.rsplit_once(' ').unwrap();
        assert_eq!(counted(&format!("main.{name}")), own.parse().ok(), "{name}: {output}");
    }
}

#[test]
fn every_call_is_counted_once_while_stacks_grow() {
    // For position-independent programs Go's libraries must be compiled first, which takes a
    // minute.
    let kinds = [
        ("go-counts", "-ldflags="),
        ("go-counts-stripped", "-ldflags=-s -w"),
        ("go-counts-pie", "-buildmode=pie"),
    ];
    for (name, flags) in kinds.into_iter().take(if runs() > RUNS { 3 } else { 2 }) {
        let Some(program) = build(name, "counts.go", &[flags]) else { return };
        let plain = Command::new(&program).output().unwrap();
        assert_eq!(plain.status.code(), Some(7));
        for _ in 0..runs() {
            let counts = scratch(&format!("{name}.json"));
            let tagged = hmtt_tag(&["run", "--overwrite", "-o", counts.to_str().unwrap(), "--"])
                .arg(&program)
                .output();
            let tagged = tagged.unwrap();
            let calls = calls(&counts);
            check(&plain, &tagged, |function| calls.get(function).copied());
        }
    }
}

#[test]
fn every_entry_is_logged_once_while_stacks_grow() {
    let Some(program) = build("go-logged", "counts.go", &[]) else { return };
    let plain = Command::new(&program).output().unwrap();
    for _ in 0..runs() {
        let log = scratch("go-logged.tags");
        let words = ["run", "--sink", "log", "--overwrite", "-o", log.to_str().unwrap(), "--"];
        let tagged = hmtt_tag(&words).arg(&program).output().unwrap();
        let report = hmtt_tag(&["report", "--json", log.to_str().unwrap()]).output().unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let functions = report["functions"].as_array().unwrap();
        check(&plain, &tagged, |name| {
            functions.iter().find(|function| function["name"] == name)?["calls"].as_u64()
        });
    }
}

/// Returns the process that traces another one, or 0.
fn controller(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.unwrap().trim().parse().unwrap()
}

fn is_running(tagging: &mut Child) -> bool {
    tagging.try_wait().unwrap().is_none()
}

#[test]
fn interrupted_goroutines_continue_after_attaching_and_detaching() {
    for sink in ["count", "log"] {
        let Some(program) = build(&format!("go-serve-{sink}"), "serve.go", &[]) else { return };
        let mut served = Command::new(&program);
        let served = served.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut served: Child = served.spawn().unwrap();
        let mut lines = BufReader::new(served.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        for _ in 0..if runs() > RUNS { runs() } else { ATTACHED } {
            let output = scratch(&format!("go-serve-{sink}.out"));
            let _ = scratch(&format!("go-serve-{sink}.out.json"));
            let words = ["attach", "--sink", sink, "--overwrite", "-o", output.to_str().unwrap()];
            let mut tagging = hmtt_tag(&words);
            let tagging = tagging.arg(served.id().to_string()).stderr(Stdio::piped());
            let mut tagging = tagging.spawn().unwrap();
            while controller(served.id()) == 0 && is_running(&mut tagging) {
                std::thread::sleep(PAUSE);
            }
            std::thread::sleep(TAGGED_TIME);
            let pid = nix::unistd::Pid::from_raw(tagging.id() as i32);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
            let left = tagging.wait_with_output().unwrap();
            assert!(left.status.success(), "{}", String::from_utf8_lossy(&left.stderr));
            assert_eq!(served.try_wait().unwrap(), None);
        }
        served.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "end");
        let served = served.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&served.stderr).into_owned();
        assert_eq!((served.status.code(), printed.as_str()), (Some(5), ""));
    }
}

#[test]
fn calls_between_go_and_c_are_counted() {
    let Some(program) = build("go-calls-c", "calls_c.go", &[]) else { return };
    let plain = Command::new(&program).output().unwrap();
    for _ in 0..runs() {
        let counts = scratch("go-calls-c.json");
        let words = ["run", "--overwrite", "-o", counts.to_str().unwrap(), "--"];
        let tagged = hmtt_tag(&words).arg(&program).output().unwrap();
        let printed = String::from_utf8_lossy(&tagged.stderr);
        assert_eq!((tagged.status, &tagged.stdout), (plain.status, &plain.stdout), "{printed}");
        let calls = calls(&counts);
        // For `g` there are `g - 1` callbacks for each of the 20 calls, if that is positive.
        let back: u64 = (0..8u64).map(|g| 20 * g.saturating_sub(1)).sum();
        assert_eq!(
            calls.get("main.called_back").or(calls.get("called_back")),
            Some(&back),
            "{calls:?}"
        );
    }
}

#[test]
fn functions_whose_addresses_the_runtime_uses_are_not_tagged() {
    let Some(program) = build("go-refused", "serve.go", &["-ldflags=-s -w"]) else { return };
    let list = hmtt_tag(&["list", "--json"]).arg(&program).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let functions = list["objects"][0]["functions"].as_array().unwrap();
    let refused = |name: &str| {
        let function = functions.iter().find(|function| function["name"] == name);
        function.unwrap_or_else(|| panic!("{name}"))["refused"].clone()
    };
    for name in ["goexit", "asyncPreempt", "morestack", "mcall", "gogo", "systemstack", "duffzero"]
    {
        assert_eq!(
            refused(&format!("runtime.{name}")),
            "Go's runtime depends on its addresses",
            "{name}"
        );
    }
    assert_eq!([refused("main.deep"), refused("main.work")], [Value::Null, Value::Null]);
}

#[test]
fn preempted_goroutines_continue_at_their_instruction() {
    let Some(program) = build("go-preempted", "preempted.go", &[]) else { return };
    let plain = Command::new(&program).output().unwrap();
    for _ in 0..runs() {
        let counts = scratch("go-preempted.json");
        let counting = ["run", "--overwrite", "-o", counts.to_str().unwrap()];
        for words in [&["run", "--sink", "none"][..], &counting] {
            let words = [words, &["-i", "main.leaf", "--"]].concat();
            let tagged = hmtt_tag(&words).arg(&program).output().unwrap();
            let calls = counts.exists().then(|| calls(&counts));
            check(&plain, &tagged, |function| match &calls {
                Some(calls) => calls.get(function).copied(),
                None => Some(200_000_000),
            });
        }
    }
}

#[test]
fn a_reservation_that_is_not_touched_is_not_searched() {
    let Some(program) = build("go-reserves", "reserves.go", &[]) else { return };
    let mut reserves = Command::new(&program);
    let mut reserves = reserves.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(reserves.stdout.take().unwrap()).lines();
    if lines.next().unwrap().unwrap() != "ready" {
        reserves.wait().unwrap();
        return crate::skipped("a terabyte cannot be reserved here");
    }
    let counts = scratch("go-reserves.json");
    let pid = reserves.id().to_string();
    let words = ["attach", "--overwrite", "-i", "main.work", "-o", counts.to_str().unwrap(), &pid];
    let mut tagging = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
    // Reading all of it takes ten minutes.
    let patience = std::time::Instant::now() + Duration::from_secs(100);
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    while !read("maps").contains("hmtt-tag-") || read("status").contains("(tracing stop)") {
        assert!(std::time::Instant::now() < patience, "it does not begin");
        assert!(is_running(&mut tagging));
        std::thread::sleep(PAUSE);
    }
    reserves.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "end 29524 0");
    assert_eq!(reserves.wait().unwrap().code(), Some(5));
    let printed = tagging.wait_with_output().unwrap();
    assert_eq!(printed.status.code(), Some(5), "{}", String::from_utf8_lossy(&printed.stderr));
    assert_eq!(calls(&counts)["main.work"], 10);
}
