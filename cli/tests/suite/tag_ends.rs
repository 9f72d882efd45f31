//! Tests programs that end unexpectedly: `hmtt tag` ends with their status and has all their
//! counts.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::scratch;
use crate::tag::{build, calls, hmtt_tag};

/// A program that makes steps and ends by a signal to itself, or executes a shell that does.
const FALLS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long steps;
__attribute__((noipa)) void step(void) { steps++; }
int main(int count, char **words) {
    for (int i = 0; i < 1000; i++) step();
    puts("stepped"); fflush(stdout);
    if (count > 2) return execl("/bin/sh", "sh", "-c", words[2], (char *)0);
    // A shell ignores some signals for background processes.
    signal(atoi(words[1]), SIG_DFL);
    kill(getpid(), atoi(words[1]));
    pause();
    return 0;
}
"#;

#[test]
fn a_signal_that_ends_the_program_ends_hmtt() {
    let Some(program) = build("tag-falls", FALLS, &[]) else { return };
    let real_time = libc::SIGRTMIN() + 3;
    for signal in [libc::SIGSEGV, libc::SIGTERM, libc::SIGKILL, libc::SIGINT, real_time] {
        for sink in ["count", "log"] {
            let file = scratch(&format!("tag-falls-{sink}-{signal}"));
            let words = ["run", "--sink", sink, "--overwrite", "-o", file.to_str().unwrap(), "--"];
            let output = hmtt_tag(&words).arg(&program).arg(signal.to_string()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(signal), "{text}");
            assert!(!output.status.core_dumped());
            assert!(text.contains("the program was ended by"), "{text}");
            assert_eq!(output.stdout, b"stepped\n");
            if sink == "count" {
                assert_eq!(calls(&file)["step"], 1000);
            } else {
                let words = ["report", "--json", file.to_str().unwrap()];
                let report = hmtt_tag(&words).output().unwrap();
                assert!(report.status.success(), "{report:?}");
                let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
                let functions = report["functions"].as_array().unwrap();
                let step = functions.iter().find(|function| function["name"] == "step").unwrap();
                assert_eq!(step["calls"], 1000);
            }
        }
    }
}

#[test]
fn a_signal_that_ends_an_executed_program_ends_hmtt() {
    let Some(program) = build("tag-falls-later", FALLS, &[]) else { return };
    let run = |command: &str| {
        let words = ["run", "-o", "/dev/null", "--"];
        hmtt_tag(&words).arg(&program).args(["0", command]).output().unwrap().status
    };
    assert_eq!(run("kill -TERM $$").signal(), Some(libc::SIGTERM));
    assert_eq!(run("kill -40 $$").signal(), Some(40));
    assert_eq!(run("exit 6").code(), Some(6));
}

#[test]
fn a_write_error_is_reported_and_the_program_continues() {
    let Some(program) = build("tag-not-written", FALLS, &[]) else { return };
    // A device that is always full.
    let words = ["run", "-o", "/dev/full", "--"];
    let status = |command| {
        let output = hmtt_tag(&words).arg(&program).args(["0", command]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/full"));
        output.status.code()
    };
    assert_eq!((status("exit 0"), status("exit 4")), (Some(1), Some(4)));
}

/// A program that loads and unloads a library while threads start and end, and ends meanwhile. With
/// `late` it waits until all threads have ended.
const HURRIES: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char *path;
static atomic_int stop;
__attribute__((noipa)) long step(long n) { return n + 1; }
static void *few(void *unused) { for (int i = 0; i < 10; i++) step(i); return unused; }
static void *many(void *unused) {
    for (int i = 0; i < 60; i++) { pthread_t t; pthread_create(&t, 0, few, 0); pthread_join(t, 0); }
    return unused;
}
static void *loads(void *unused) {
    while (!stop) {
        void *library = dlopen(path, RTLD_NOW);
        if (!library) abort();
        ((long (*)(long))dlsym(library, "loaded"))(1);
        dlclose(library);
    }
    return unused;
}
int main(int count, char **words) {
    pthread_t loading, t[2];
    path = words[1];
    pthread_create(&loading, 0, loads, 0);
    if (count > 2) { usleep(atoi(words[2])); _exit(7); }
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, many, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    stop = 1;
    pthread_join(loading, 0);
    return 7;
}
"#;
const LOADED: &str = "long loaded(long n) { return n * n + 1; }\n";

#[test]
fn a_program_that_ends_while_it_is_stopped_keeps_its_status() {
    let Some(library) = build("libtag-hurried.so", LOADED, &["-shared", "-fPIC"]) else { return };
    let Some(program) = build("tag-hurries", HURRIES, &["-ldl"]) else { return };
    let counts = scratch("tag-hurries.json");
    let counts_name = counts.to_str().unwrap();
    let words =
        ["run", "-i", "library=libtag-*", "-i", "*", "--overwrite", "-o", counts_name, "--"];
    for round in 0..40 {
        let mut command = hmtt_tag(&words);
        let command = command.arg(&program).arg(&library).arg((round * 100).to_string());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(calls(&counts)["main"], 1);
    }
    for _ in 0..3 {
        let output = hmtt_tag(&words).arg(&program).arg(&library).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        let calls = calls(&counts);
        assert_eq!([calls["step"], calls["few"], calls["many"], calls["main"]], [1200, 120, 2, 1]);
    }
}

/// A program that calls small functions for some milliseconds.
const BRIEF: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long steps;
__attribute__((noipa)) void one(void) { steps++; }
__attribute__((noipa)) void two(void) { one(); one(); }
__attribute__((noipa)) void three(void) { two(); two(); }
static void *run(void *unused) { for (;;) three(); return unused; }
int main(int count, char **words) {
    pthread_t t;
    (void)count;
    pthread_create(&t, 0, run, 0);
    usleep(atoi(words[1]));
    return 7;
}
"#;

#[test]
fn a_program_that_ends_while_tags_are_removed_keeps_its_status() {
    let Some(program) = build("tag-brief", BRIEF, &[]) else { return };
    for round in 0..20 {
        let time = (19_000 + round * 200).to_string();
        let words = ["run", "--budget", "0.001%", "-o", "/dev/null", "--"];
        let output = hmtt_tag(&words).arg(&program).arg(&time).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for round in 0..20 {
        let words = ["run", "-o", "/dev/null", "--"];
        let mut command = hmtt_tag(&words);
        let command = command.arg(&program).arg("4000").stderr(Stdio::piped());
        let tag = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10 + round % 10));
        // SAFETY: sends a signal to our own child.
        unsafe { libc::kill(tag.id() as i32, libc::SIGINT) };
        let output = tag.wait_with_output().unwrap();
        // hmtt detached, or the program ended first, or the signal came before hmtt handled it.
        let status = (output.status.code(), output.status.signal());
        let is_one =
            [(Some(0), None), (Some(7), None), (None, Some(libc::SIGINT))].contains(&status);
        assert!(is_one, "{output:?}");
    }
}
