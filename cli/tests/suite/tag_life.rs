//! Tests `hmtt tag` from a program's first instruction to its last: libraries, initialisers, and
//! detaching of controllers.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, wait_for};

/// Calls a library that it is linked to, and one that it loads, unloads and loads again.
const LOADS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
long linked(long n);
int main(int count, char **words) {
    (void)count;
    long sum = 0;
    for (int i = 0; i < 7; i++) sum += linked(i);
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(words[1], RTLD_NOW);
        if (!library) { puts(dlerror()); return 1; }
        long (*loaded)(long) = (long (*)(long))dlsym(library, "loaded");
        for (int i = 0; i < 5; i++) sum += loaded(i);
        if (round == 1) dlclose(library);
    }
    printf("%ld\n", sum);
    return 0;
}
"#;
const LINKED: &str = "__attribute__((noipa)) static long inner(long n) { return n * 2; }\n\
    long linked(long n) { return inner(n) + inner(n + 1); }\n";
const LOADED: &str = "long loaded(long n) { return n * n + 1; }\n";

#[test]
fn functions_of_libraries_are_tagged_whenever_they_are_loaded() {
    let shared = ["-shared", "-fPIC"];
    let Some(linked) = build("libtag-linked.so", LINKED, &shared) else { return };
    let Some(loaded) = build("libtag-loaded.so", LOADED, &shared) else { return };
    let folder = format!("-Wl,-rpath,{}", linked.parent().unwrap().display());
    let flags = [linked.to_str().unwrap(), &folder, "-ldl"];
    let Some(program) = build("tag-loads", LOADS, &flags) else { return };
    let words = [program.to_str().unwrap(), loaded.to_str().unwrap()];
    let plain = Command::new(words[0]).arg(words[1]).output().unwrap();
    let counts = scratch("tag-loads.json");
    let options = ["run", "-i", "library=libtag-*", "-i", "main", "-o", counts.to_str().unwrap()];
    let tagged = hmtt_tag(&options).arg("--").args(words).output().unwrap();
    assert_eq!(
        (tagged.status.code(), &tagged.stdout),
        (plain.status.code(), &plain.stdout),
        "{}",
        String::from_utf8_lossy(&tagged.stderr)
    );
    let calls = calls(&counts);
    let count = |name: &str| calls.get(name).copied();
    assert_eq!(
        [count("main"), count("linked"), count("inner"), count("loaded")],
        [1, 7, 14, 15].map(Some)
    );
}

/// Calls a function before `main` and in it.
const EARLY: &str = r#"
#include <stdio.h>
static volatile long steps;
__attribute__((noipa)) void step(void) { steps++; }
__attribute__((constructor)) static void before(void) { for (int i = 0; i < 9; i++) step(); }
int main(void) { for (int i = 0; i < 4; i++) step(); printf("%ld\n", steps); return 0; }
"#;

#[test]
fn tags_begin_with_main_or_before_it() {
    for (name, flags) in [("tag-early", &[][..]), ("tag-early-static", &["-static"])] {
        let Some(program) = build(name, EARLY, flags) else { return };
        for (option, expected) in [(&[][..], 4), (&["--initializers"], 13)] {
            let counts = scratch(&format!("{name}-{expected}.json"));
            let words = [&["run", "-o", counts.to_str().unwrap()], option].concat();
            let output = hmtt_tag(&words).arg("--").arg(&program).output().unwrap();
            assert_eq!(output.stdout, b"13\n", "{}", String::from_utf8_lossy(&output.stderr));
            let calls = calls(&counts);
            assert_eq!((calls["step"], calls["main"]), (expected, 1), "{name} {option:?}");
        }
    }
}

/// Makes steps until its input ends.
const STEPS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static atomic_int stop;
static atomic_long wrong;
__attribute__((noipa)) long step(long n) { return n + 1; }
static void *run(void *unused) {
    (void)unused;
    while (!stop) { long n = 0; for (int i = 0; i < 100; i++) n = step(n); wrong += n != 100; }
    return 0;
}
int main(void) {
    pthread_t t[2];
    puts("started"); fflush(stdout);
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, run, 0);
    getchar();
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    printf("%ld\n", wrong);
    return 0;
}
"#;

/// A program that makes steps, and prints their number at the end.
struct Stepping {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Stepping {
    fn start(program: &Path) -> Self {
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        Stepping { child, output }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert_eq!(text, "0\n");
    }
}

/// Attaches, and waits until the tags are in place.
fn attach(pid: &str, counts: &Path) -> Child {
    let words = ["attach", "-o", counts.to_str().unwrap(), pid];
    let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
    let maps = format!("/proc/{pid}/maps");
    wait_for(&mut tag, "there is memory of tags", || {
        std::fs::read_to_string(&maps).unwrap().contains("hmtt-tag")
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    tag
}

#[test]
fn a_controller_detaches_at_the_request_of_another() {
    let Some(program) = build("tag-asked", STEPS, &[]) else { return };
    let (stepping, counts) = (Stepping::start(&program), scratch("tag-asked.json"));
    let tag = attach(&stepping.pid(), &counts);
    let output = hmtt_tag(&["detach", &stepping.pid()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let tag = tag.wait_with_output().unwrap();
    assert!(tag.status.success(), "{tag:?}");
    assert!(calls(&counts)["step"] > 0);
    let again = hmtt_tag(&["detach", &stepping.pid()]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("has no tags"), "{again:?}");
    stepping.end();
}

/// As when `hmtt tag attach PID 2>&1 | tee log` is interrupted: `tee` ends first, and `hmtt` still
/// has much to report.
#[test]
fn tags_are_taken_out_when_nobody_reads_the_messages() {
    let Some(program) = build("tag-unread", STEPS, &[]) else { return };
    let (stepping, counts) = (Stepping::start(&program), scratch("tag-unread.json"));
    let mut tag = attach(&stepping.pid(), &counts);
    drop(tag.stderr.take());
    let pid = nix::unistd::Pid::from_raw(tag.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = tag.wait().unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", stepping.pid())).unwrap();
    assert!(!maps.contains("hmtt-tag"), "tags are left after {status}");
    assert_eq!(status.code(), Some(0));
    // The function may not have been called meanwhile.
    assert!(calls(&counts).contains_key("step"));
    stepping.end();
}

#[test]
fn commands_work_on_when_messages_cannot_be_written() {
    let Some(program) = build("tag-unwritable", STEPS, &[]) else { return };
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let counts = scratch("tag-unwritable.json");
    let words = ["run", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
    let output = hmtt_tag(&words).stdin(Stdio::null()).stderr(full()).output().unwrap();
    assert_eq!(output.stdout, b"started\n0\n");
    assert_eq!(output.status.code(), Some(0));
    let status = hmtt_tag(&["report", "/dev/null"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1), "an error, and no panic");
}

#[test]
fn tags_of_a_killed_controller_are_removed() {
    let Some(program) = build("tag-killed", STEPS, &[]) else { return };
    let stepping = Stepping::start(&program);
    for round in 0..3 {
        let mut tag = attach(&stepping.pid(), &scratch(&format!("tag-killed-{round}.json")));
        tag.kill().unwrap();
        tag.wait().unwrap();
        let output = hmtt_tag(&["detach", &stepping.pid()]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    stepping.end();
}

/// Calls one function very often, and another one rarely.
const UNEVEN: &str = r#"
#include <stdio.h>
static volatile long steps;
__attribute__((noipa)) void often(void) { steps++; }
__attribute__((noipa)) void seldom(void) { for (int i = 0; i < 3000000; i++) often(); }
int main(void) { for (int i = 0; i < 400; i++) seldom(); printf("%ld\n", steps); return 0; }
"#;

#[test]
fn tags_that_exceed_the_budget_are_removed_and_named() {
    let Some(program) = build("tag-uneven", UNEVEN, &[]) else { return };
    let counts = scratch("tag-uneven.json");
    let words = ["run", "--budget", "5%", "-o", counts.to_str().unwrap(), "--"];
    let output = hmtt_tag(&words).arg(&program).output().unwrap();
    assert_eq!(output.stdout, b"1200000000\n");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("often lost its tags"), "{text}");
    let calls = calls(&counts);
    assert!(calls["often"] < 1_200_000_000, "{calls:?}");
    assert_eq!(calls["seldom"], 400);
}

#[test]
fn functions_are_chosen_by_their_source_file() {
    let Some(program) = build("tag-sources", STEPS, &["-g"]) else { return };
    let list = |rule: &str, program: &Path| {
        let output = hmtt_tag(&["list", "-i", rule]).arg(program).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
        rows.filter_map(|line| line.split_whitespace().nth(4)).map(str::to_owned).collect()
    };
    let (status, text) = list("source=tag-sources.c", &program);
    let mut functions = names(&text);
    functions.sort();
    assert_eq!((status, functions), (Some(0), ["main", "run", "step"].map(str::to_owned).to_vec()));
    let (status, text) = list("source=other.c", &program);
    assert_eq!((status, names(&text)), (Some(1), Vec::new()));
    let Some(bare) = build("tag-no-sources", STEPS, &[]) else { return };
    assert_eq!(list("source=*.c", &bare).0, Some(1));
}
