//! Programs behave as without monitoring, and nothing is lost: our own, and installed ones, with
//! and without JIT compilers.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{
    BUSY, JUMPS, MACHINE, REPAIRS, THREADS, THROWS, TIMERS, UNWINDS, WRITES_CODE, hmtt_monitor,
    run_monitored,
};
use crate::built::built;
use crate::endurance::server::Server;
use crate::skipped;
use crate::tag::build;

const WORKERS: &str = include_str!("workers.c");

/// Programs that JIT compilers translate.
const LUA: &str = "local s = 0; for i = 1, 1e6 do s = s + i % 7 end; print(s); \
    local function f(n) if n < 2 then return n end; return f(n - 1) + f(n - 2) end; print(f(20)); os.exit(3)";
const JAVASCRIPT: &str = "let m = new Map(); for (let i = 0; i < 2e5; i++) m.set(i % 1000, (m.get(i % 1000) || 0) + i); \
    function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); } console.log(m.get(7), f(20)); \
    setTimeout(() => { console.log('later'); process.exit(4); }, 10);";

#[test]
fn programs_behave_as_without_monitoring() {
    let programs: [(&str, &str, &[&str], &[&str]); 12] = [
        ("busy", BUSY, &[], &["signals"]),
        ("timers", TIMERS, &[], &[]),
        ("writes-code", WRITES_CODE, &[], &[]),
        ("throws", THROWS, &["-fnon-call-exceptions"], &[]),
        ("throws-static", THROWS, &["-fnon-call-exceptions", "-static"], &[]),
        ("repairs", REPAIRS, &["-rdynamic"], &["more"]),
        ("jumps", JUMPS, &["-w"], &[]),
        ("machine", MACHINE, &["-w"], &[]),
        ("threads", THREADS, &["-w", "-no-pie"], &[]),
        ("unwinds", UNWINDS, &["-w"], &[]),
        ("stripped", JUMPS, &["-w", "-s"], &[]),
        ("workers", WORKERS, &[], &[]),
    ];
    for (name, source, flags, words) in programs {
        let Some(program) = build(&format!("monitor-{name}"), source, flags) else { continue };
        let counts = run_monitored(name, &program, words);
        assert!(counts["blocks"].as_array().unwrap().len() > 100, "{name}");
    }
}

#[test]
fn installed_programs_behave_as_without_monitoring() {
    let loops = "for i in $(seq 50); do x=$((x+i)); done; echo $x | cat; trap 'echo T' USR1; kill -USR1 $$; exit 5";
    let query = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<500) \
                 insert into t select x, x*x from c; select a%7,sum(b) from t group by 1;";
    let commands: [(&str, &[&str]); 7] = [
        ("bash", &["-c", loops]),
        (
            "perl",
            &[
                "-e",
                "my %h; $h{$_ % 97} += $_ for 1..2000; print map {$h{$_}} sort keys %h; print `echo hi`",
            ],
        ),
        ("bzip2", &["-c", file!()]),
        ("sqlite3", &[":memory:", query]),
        ("git", &["--version"]),
        ("luajit", &["-e", LUA]),
        ("node", &["-e", JAVASCRIPT]),
    ];
    for (name, words) in commands {
        match Command::new(name).arg("-v").output() {
            Ok(_) => drop(run_monitored(name, Path::new(name), words)),
            Err(error) => skipped(format!("{name}: {error}")),
        }
    }
}

#[test]
fn programs_of_rust_and_go_behave_as_without_monitoring() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite");
    let panics = built("monitor-panics", "panics.rs", |program| {
        let mut command = Command::new("rustc");
        command.args(["--edition=2021", "-O", "-o"]).arg(program);
        command.arg(format!("{folder}/tag_real/programs/panics.rs"));
        command
    });
    panics.map(|program| run_monitored("panics", &program, &[]));
    for name in ["counts", "preempted"] {
        let program = built(&format!("monitor-go-{name}"), name, |program| {
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache");
            let mut command = Command::new("go");
            command.env("GOCACHE", cache).env("GO111MODULE", "off").args(["build", "-o"]);
            command.arg(program).arg(format!("{folder}/tag_go/{name}.go"));
            command
        });
        let Some(program) = program else { return };
        let counts = run_monitored(&format!("go-{name}"), &program, &[]);
        // Its runtime interrupts threads by signals.
        assert!(counts["handled_signals"].as_u64().unwrap() > 0);
    }
}

#[test]
fn redis_serves_under_load_while_it_is_monitored() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, profile) = (folder.path().join("socket"), folder.path().join("profile.json"));
    if let Err(error) = Command::new("redis-server").arg("--version").output() {
        return skipped(format!("redis-server: {error}"));
    }
    let mut command = hmtt_monitor(&["run", "-o", profile.to_str().unwrap(), "--"]);
    command.arg("redis-server");
    let mut server = Server::start(command, folder.path(), &socket);
    let client = |program: &str, words: &[&str]| {
        let output = Command::new(program).arg("-s").arg(&socket).args(words).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    client("redis-benchmark", &["-n", "3000", "-c", "20", "-q", "-t", "set,get,lpush,zadd"]);
    let script =
        "for i = 1, 1000 do redis.call('incrby', 'sum', i) end; return redis.call('get', 'sum')";
    assert_eq!(client("redis-cli", &["eval", script, "0"]), "500500\n");
    assert_eq!(client("redis-cli", &["llen", "mylist"]), "3000\n");
    client("redis-cli", &["shutdown", "nosave"]);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    let counts: Value = serde_json::from_slice(&std::fs::read(&profile).unwrap()).unwrap();
    for name in ["dropped_numbers", "invalid_numbers", "cut_threads", "unbalanced_blocks"] {
        assert_eq!(counts[name], 0, "{name}");
    }
    let calls = counts["system_calls"].as_array().unwrap().iter();
    let accepted =
        calls.filter(|call| ["accept", "accept4"].contains(&call["name"].as_str().unwrap()));
    assert!(accepted.map(|call| call["calls"].as_u64().unwrap()).sum::<u64>() > 80);
}
