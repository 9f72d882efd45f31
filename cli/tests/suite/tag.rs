//! Tests `hmtt tag` on real programs that are built here: counts equal those of callgrind, and the
//! programs behave as without tags.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hmtt_probe::elf::Image;
use serde_json::Value;

use crate::built::built;
use crate::{callgrind, scratch};

/// A program that calls a library's function through a pointer, and recurses.
pub const FIB: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static __attribute__((noinline)) int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    int a[1000];
    for (int i = 0; i < 1000; i++) a[i] = (i * 7919) % 1009;
    qsort(a, 1000, sizeof a[0], compare);
    printf("%ld %d\n", fib(18), a[5]);
    return 3;
}
"#;

/// A program that starts and joins threads which call a small function.
pub const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long leaf(long n) { __asm__ volatile(""); return n * 3 + 1; }
__attribute__((noinline)) long work(long n) { long s = 0; for (long i = 0; i < n; i++) s += leaf(i); return s; }
static void *run(void *turns) { long s = 0; for (long i = 0; i < (long)turns; i++) s += work(1000); return (void *)s; }
int main(int count, char **words) {
    long turns = count > 1 ? atol(words[1]) : 20;
    pthread_t t[5];
    puts("started"); fflush(stdout);
    for (int round = 0; round < 3; round++) {
        long s = 0;
        for (int i = 0; i < 5; i++) pthread_create(&t[i], 0, run, (void *)turns);
        for (int i = 0; i < 5; i++) { void *v; pthread_join(t[i], &v); s += (long)v; }
        printf("%ld\n", s);
    }
    return 0;
}
"#;

/// A program that throws through several frames with destructors.
const THROWS: &str = r#"
#include <cstdio>
#include <stdexcept>
__attribute__((noinline)) int thrower(int n) { if (n >= 0) throw std::runtime_error("x"); return n; }
struct Local { int v; ~Local() { std::printf("%d ", v); } };
__attribute__((noinline)) int middle(int n) { Local local{n}; return n > 0 ? middle(n - 1) + 1 : thrower(n); }
int main() {
    for (int i = 0; i < 4; i++) try { middle(i); } catch (std::exception &e) { std::printf("caught %s\n", e.what()); }
    return 0;
}
"#;

/// A program that forks and starts another program.
pub const FORKS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int steps;
__attribute__((noipa)) int step(int n) { steps++; return n + 1; }
int main(void) {
    int n = 0, status;
    for (int i = 0; i < 10; i++) n = step(n);
    pid_t child = fork();
    if (child == 0) { for (int i = 0; i < 1000; i++) n = step(n); _exit(n == 1010 ? 7 : 1); }
    waitpid(child, &status, 0);
    printf("%d %d\n", n, WEXITSTATUS(status)); fflush(stdout);
    return system("echo from a shell");
}
"#;

/// Builds a program; `None` if the test is skipped.
pub fn build(name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let is_cpp = source.contains("#include <c");
    let (compiler, extension) = if is_cpp { ("g++", "cc") } else { ("cc", "c") };
    built(name, &format!("{flags:?} {source}"), |program| {
        let file = scratch(&format!("{name}.{extension}"));
        std::fs::write(&file, source).unwrap();
        let mut command = Command::new(compiler);
        command.args(["-O2", "-pthread", "-o"]).arg(program).arg(file).args(flags);
        command
    })
}

pub fn hmtt_tag(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.arg("tag").args(arguments);
    command
}

/// Runs a program with and without tags, checks that it behaves the same, and returns the counts.
fn run_tagged(name: &str, program: &Path) -> BTreeMap<String, u64> {
    calls(&run_counted(name, program))
}

/// As `run_tagged`, but returns the file with the counts.
fn run_counted(name: &str, program: &Path) -> PathBuf {
    let counts = scratch(&format!("{name}.json"));
    let plain = Command::new(program).output().unwrap();
    let words = ["run", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
    let tagged = hmtt_tag(&words).output().unwrap();
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    assert_eq!(seen(&tagged), seen(&plain), "{}", String::from_utf8_lossy(&tagged.stderr));
    counts
}

pub fn calls(file: &Path) -> BTreeMap<String, u64> {
    let counts: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let functions = counts["functions"].as_array().unwrap().iter();
    functions
        .map(|function| {
            (function["name"].as_str().unwrap().to_owned(), function["calls"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn counts_equal_those_of_callgrind() {
    for (name, flags) in
        [("fib", &[][..]), ("fib-fixed", &["-no-pie"]), ("fib-static", &["-static"])]
    {
        let Some(program) = build(&format!("tag-{name}"), FIB, flags) else { return };
        let counts = run_tagged(&format!("tag-{name}"), &program);
        let Some(expected) = callgrind::calls(name, &program, &[]) else { return };
        let expected = callgrind::by_name(&Image::read(&program).unwrap(), &expected);
        for function in ["fib", "compare", "main"] {
            assert_eq!(counts[function], expected[function], "{function} of {name}");
        }
    }
}

#[test]
fn every_thread_has_its_own_counts_and_none_is_lost() {
    let Some(program) = build("tag-threads", THREADS, &[]) else { return };
    let file = run_counted("tag-threads", &program);
    let counts = calls(&file);
    let expected = [("leaf", 3 * 5 * 20 * 1000), ("work", 3 * 5 * 20), ("run", 3 * 5), ("main", 1)];
    for (function, calls) in expected {
        assert_eq!(counts[function], calls, "{function}");
    }
    let counts: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut functions = counts["functions"].as_array().unwrap().iter();
    let leaf = functions.find(|function| function["name"] == "leaf").unwrap();
    let threads: Vec<u64> = leaf["threads"]
        .as_object()
        .unwrap()
        .values()
        .map(|value| value.as_u64().unwrap())
        .collect();
    assert_eq!(threads, [20 * 1000; 3 * 5]);
}

#[test]
fn exceptions_pass_through_tagged_functions() {
    for (name, flags) in [("tag-throws", &[][..]), ("tag-throws-static", &["-static"])] {
        let Some(program) = build(name, THROWS, flags) else { return };
        let counts = run_tagged(name, &program);
        let sum = |part: &str| {
            let matching =
                counts.iter().filter(|(name, _)| name.contains(part) && !name.contains("cold"));
            matching.map(|(_, calls)| calls).sum::<u64>()
        };
        assert_eq!((sum("middle"), sum("thrower")), (1 + 2 + 3 + 4, 4));
    }
}

#[test]
fn children_run_without_tags() {
    let Some(program) = build("tag-forks", FORKS, &[]) else { return };
    assert_eq!(run_tagged("tag-forks", &program)["step"], 10);
}

/// A program that executes another one.
const EXECS: &str = r#"
#include <unistd.h>
__attribute__((noinline)) int become(void) { return execl("/bin/sh", "sh", "-c", "sleep 0.2; echo another; exit 5", (char *)0); }
int main(void) { return become(); }
"#;

#[test]
fn the_program_that_a_process_executes_is_waited_for() {
    let Some(program) = build("tag-becomes", EXECS, &["-fno-inline"]) else { return };
    let counts = run_tagged("tag-becomes", &program);
    assert_eq!(counts["main"], 1, "{counts:?}");
}

#[test]
fn unusable_programs_processes_and_options_are_errors() {
    for (words, message) in [
        (&["run", "--", "/nonexistent/program"][..], "cannot run /nonexistent/program"),
        (&["run", "--", "/dev/null"], "cannot run /dev/null"),
        (&["attach", "2147483647"], "process 2147483647"),
        (&["detach", "2147483647"], "process 2147483647"),
        (&["run", "--sink", "none", "--budget", "5%", "--", "/bin/true"], "a budget needs counts"),
        (&["run", "--sink", "card", "--window", "/nonexistent", "--", "/bin/true"], "/nonexistent"),
        (&["run", "--sink", "card", "--window", "/dev/zero:1", "--", "/bin/true"], "/dev/zero"),
        (&["list", "/dev/null"], "/dev/null"),
        (&["list", "-i", "regex=(", "/bin/true"], "regex=("),
    ] {
        let output = hmtt_tag(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains(message), "{words:?}: {text}");
    }
}

/// A program that starts other programs one after the other, as a shell does.
const STARTS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static volatile long steps;
__attribute__((noipa)) void step(void) { for (int i = 0; i < 1000; i++) steps++; }
int main(void) {
    int failed = 0;
    puts("started"); fflush(stdout);
    for (int i = 0; i < 400; i++) { step(); failed += system(":") != 0; }
    printf("%ld %d\n", steps, failed);
    return 0;
}
"#;

#[test]
fn a_program_is_tagged_while_it_starts_others() {
    let Some(program) = build("tag-starts", STARTS, &[]) else { return };
    assert!(attach_while_running("tag-starts", &program, "", "step") > 0);
}

#[test]
fn a_running_program_is_unchanged_by_attaching_and_detaching() {
    let Some(program) = build("tag-attached", THREADS, &[]) else { return };
    assert!(attach_while_running("tag-attached", &program, "60000", "leaf") > 0);
}

/// Attaches repeatedly to a program whose output must not change. Returns how often the function
/// was counted.
fn attach_while_running(name: &str, program: &Path, word: &str, function: &str) -> u32 {
    let plain = Command::new(program).arg(word).output().unwrap();
    let mut child = Command::new(program).arg(word).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    let mut cycles = 0;
    for cycle in 0..5 {
        let counts = scratch(&format!("{name}-{cycle}.json"));
        let words = ["attach", "-o", counts.to_str().unwrap(), &child.id().to_string()];
        let tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        // SAFETY: sends a signal to our own child.
        unsafe { libc::kill(tag.id() as i32, libc::SIGINT) };
        let tag = tag.wait_with_output().unwrap();
        if child.try_wait().unwrap().is_some() {
            break;
        }
        assert!(tag.status.success(), "{}", String::from_utf8_lossy(&tag.stderr));
        cycles += u32::from(calls(&counts)[function] > 0);
    }
    for line in output.lines() {
        text = text + &line.unwrap() + "\n";
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(text, String::from_utf8(plain.stdout).unwrap());
    cycles
}
