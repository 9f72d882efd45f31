//! Compares system calls with those that strace lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::{MACHINE, hmtt_monitor, run_monitored};
use crate::tag::build;
use crate::{scratch, skipped};

/// Calls of each system call of a program and its threads, as strace lists them, without that which
/// starts the program.
fn listed(program: &Path, words: &[&str]) -> Option<BTreeMap<String, u64>> {
    let list = scratch("monitor-calls.strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(&list).arg("--").arg(program).args(words);
    // Programs make other calls if their output is not a pipe.
    let text = match command.output() {
        Ok(_) => String::from_utf8_lossy(&std::fs::read(list).unwrap_or_default()).into_owned(),
        Err(_) => String::new(),
    };
    if !text.contains("+++ exited with ") {
        skipped("strace is not installed or may not trace");
        return None;
    }
    let mut calls = BTreeMap::new();
    for line in text.lines() {
        // A number, then the call; not its end after that of another thread, nor a signal or an
        // end.
        let call = line.split_once(' ').map(|(_, call)| call.trim_start()).unwrap_or_default();
        let name = call.split('(').next().unwrap_or_default();
        if call.contains('(')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    *calls.get_mut("execve").unwrap() -= 1;
    calls.retain(|_, calls| *calls > 0);
    Some(calls)
}

/// Calls of each system call in a profile.
fn counted(name: &str, program: &Path, words: &[&str]) -> BTreeMap<String, u64> {
    let profile = run_monitored(name, program, words);
    let mut calls = BTreeMap::new();
    for call in profile["system_calls"].as_array().unwrap() {
        let name = call["name"].as_str().unwrap().to_owned();
        *calls.entry(name).or_default() += call["calls"].as_u64().unwrap();
        assert!(call["timed_calls"].as_u64() <= call["calls"].as_u64(), "{call}");
    }
    calls
}

#[test]
fn system_calls_equal_those_of_strace() {
    let query = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<500) \
                 insert into t select x, x*x from c; select a%7,sum(b) from t group by 1;";
    let mut programs = vec![
        ("sqlite3", "/usr/bin/sqlite3".into(), vec![":memory:", query]),
        (
            "bzip2",
            "/usr/bin/bzip2".into(),
            vec!["-c", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")],
        ),
    ];
    programs
        .extend(build("monitor-machine", MACHINE, &["-w"]).map(|path| ("machine", path, vec![])));
    for (name, program, words) in programs {
        if !program.exists() {
            skipped(format!("{name} is not installed"));
            continue;
        }
        let Some(expected) = listed(&program, &words) else { return };
        let counts = counted(&format!("calls-{name}"), &program, &words);
        assert_eq!(counts, expected, "{name}");
    }
}

#[test]
fn restartable_sequences_are_registered_as_in_a_plain_run() {
    let source = include_str!("sequences.c");
    let Some(program) = build("monitor-sequences", source, &["-w", "-pthread"]) else { return };
    // Without the C library's own areas, threads can register theirs.
    for tunables in ["", "glibc.pthread.rseq=0"] {
        let run = |command: &mut Command| {
            let output = command.env("GLIBC_TUNABLES", tunables).output().unwrap();
            assert!(output.status.success());
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let plain = run(&mut Command::new(&program));
        let monitored = run(hmtt_monitor(&["run", "--"]).arg(&program));
        assert_eq!(monitored, plain, "{tunables:?}");
    }
}
