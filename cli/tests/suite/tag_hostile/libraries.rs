//! Tests libraries that are loaded while a program forbids system calls, blocks signals or receives
//! many, and whose controller may have been killed.

use std::io::Write;
use std::process::Stdio;

use super::{Companion, can_read_filters, errors, program};
use crate::scratch;
use crate::tag::{build, calls, hmtt_tag};

const LIBRARY: &str = "long loaded(long n) { return n * n + 1; }\n";

/// Loads a library in the state that its first argument names, and calls it.
const LOADS: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
static long load(const char *path, int calls) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) { say(dlerror()); _exit(5); }
    long (*loaded)(long) = (long (*)(long))dlsym(library, "loaded"), sum = 0;
    for (int i = 0; i < calls; i++) sum += loaded(i);
    dlclose(library);
    return sum;
}
static volatile int seen, sent, over;
static void handler(int number) { (void)number; seen++; }
static pthread_t first;
static void *sends(void *unused) {
    while (!over) {
        sent++;
        pthread_kill(first, SIGURG);
        // A lost signal is waited for until the alarm.
        while (seen != sent) usleep(20);
    }
    return unused;
}
int main(int count, char **words) {
    char byte;
    (void)count;
    call(1);
    if (words[1][1] == 'w') { say("ready\n"); if (read(0, &byte, 1) != 1) return 7; }
    if (words[1][0] == 'f') {
        struct sock_filter code[] = { LOAD, IF(SYS_getpid, SECCOMP_RET_KILL_PROCESS),
            IF(SYS_gettid, SECCOMP_RET_KILL_PROCESS), IF(SYS_tgkill, SECCOMP_RET_KILL_PROCESS), ALWAYS(ALLOWED) };
        filter(code, sizeof code / sizeof *code);
        if (load(words[2], 5) != 35) return 4;
    } else if (words[1][0] == 'b') {
        sigset_t set;
        sigemptyset(&set); sigaddset(&set, SIGURG);
        sigprocmask(SIG_BLOCK, &set, 0);
        if (load(words[2], 5) != 35) return 4;
        sigpending(&set);
        if (sigismember(&set, SIGURG)) say("a signal is pending\n");
    } else {
        pthread_t other;
        first = pthread_self();
        signal(SIGURG, handler);
        alarm(100);
        pthread_create(&other, 0, sends, 0);
        for (int i = 0; i < 20; i++) load(words[2], 5);
        over = 1;
        pthread_join(other, 0);
        if (seen != sent) say("a signal is lost\n");
    }
    say("end\n");
    return 3;
}
"#;

#[test]
fn a_library_is_tagged_despite_filters_blocked_or_many_signals() {
    let Some(program) = program("loads", LOADS, &["-ldl"]) else { return };
    let Some(library) = build("libtag-hostile.so", LIBRARY, &["-shared", "-fPIC"]) else { return };
    let counts = scratch("tag-hostile-loads.json");
    let words = ["run", "-i", "library=libtag-*", "-i", "work", "--overwrite", "-o"];
    for how in ["f", "b", "s"] {
        let mut command = hmtt_tag(&words);
        let command = command.arg(&counts).arg("--").arg(&program).arg(how).arg(&library);
        let tagged = command.output().unwrap();
        let text = format!("{how}: {:?} {}", tagged.status, errors(&tagged));
        assert_eq!((&tagged.stdout[..], tagged.status.code()), (&b"end\n"[..], Some(3)), "{text}");
        if how != "f" || can_read_filters() {
            let expected = if how == "s" { 100 } else { 5 };
            assert_eq!(calls(&counts).get("loaded"), Some(&expected), "{text}");
        }
    }
}

#[test]
fn a_program_loads_libraries_and_forbids_calls_after_its_controller_was_killed() {
    let Some(program) = program("loads-alone", LOADS, &["-ldl"]) else { return };
    let Some(library) = build("libtag-alone.so", LIBRARY, &["-shared", "-fPIC"]) else { return };
    let counts = scratch("tag-hostile-alone.json");
    for how in ["fw", "bw", "sw"] {
        let mut companion = Companion::start(&program, &[how, library.to_str().unwrap()]);
        assert_eq!(companion.line(), "ready");
        let words = ["attach", "-i", "library=libtag-*", "-i", "work", "--overwrite", "-o"];
        let mut command = hmtt_tag(&words);
        let command = command.arg(&counts).arg(companion.pid()).stderr(Stdio::piped());
        let mut tag = command.spawn().unwrap();
        let maps = format!("/proc/{}/maps", companion.pid());
        while !std::fs::read_to_string(&maps).unwrap().contains("hmtt-tag-") {
            assert!(tag.try_wait().unwrap().is_none());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        tag.kill().unwrap();
        tag.wait().unwrap();
        companion.child.stdin.as_mut().unwrap().write_all(b"g").unwrap();
        assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)), "{how}");
    }
}

/// Loads and unloads libraries in turn and calls them, as often as its arguments say.
const RELOADS: &str = r#"
#include <dlfcn.h>
int main(int count, char **words) {
    long sum = 0;
    for (int round = 0; round < 30; round++) {
        // Every third time the library stays loaded for a while, so that the next one has another
        // address.
        void *first = dlopen(words[1 + round % (count - 1)], RTLD_NOW), *second = 0;
        if (round % 3 == 2) second = dlopen(words[1 + (round + 1) % (count - 1)], RTLD_NOW);
        void *all[] = { first, second };
        for (int i = 0; i < 2; i++) {
            if (!all[i]) continue;
            long (*loaded)(long) = (long (*)(long))dlsym(all[i], "loaded");
            for (int n = 0; n < 5; n++) sum += loaded(n);
            sum += call(1);
        }
        dlclose(first);
        if (second) dlclose(second);
    }
    printf("%ld\n", sum);
    return 3;
}
"#;

#[test]
fn a_reloaded_library_is_tagged_again_and_its_counts_continue() {
    let Some(program) = program("reloads", RELOADS, &["-ldl"]) else { return };
    let shared = ["-shared", "-fPIC"];
    // The second library has another size, so that its addresses differ too.
    let other = format!("long loaded(long n);\nlong more(long n) {{ return n ^ 5; }}\n{LIBRARY}");
    let Some(first) = build("libtag-back-one.so", LIBRARY, &shared) else { return };
    let Some(second) = build("libtag-back-two.so", &other, &shared) else { return };
    let counts = scratch("tag-hostile-back.json");
    for libraries in [&[&first][..], &[&first, &second]] {
        let plain = std::process::Command::new(&program).args(libraries).output().unwrap();
        let words = ["run", "-i", "library=libtag-*", "-i", "work", "--overwrite", "-o"];
        let mut command = hmtt_tag(&words);
        let command = command.arg(&counts).arg("--").arg(&program).args(libraries);
        let tagged = command.output().unwrap();
        let text = errors(&tagged);
        assert_eq!((&tagged.stdout, tagged.status.code()), (&plain.stdout, Some(3)), "{text}");
        assert!(!text.contains("warning"), "{text}");
        let counts: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&counts).unwrap()).unwrap();
        // Each library has a row for each of its addresses.
        let calls = |name: &str| -> Vec<u64> {
            let rows = counts["functions"].as_array().unwrap().iter();
            let rows = rows.filter(|row| row["name"] == name);
            rows.map(|row| row["calls"].as_u64().unwrap()).collect()
        };
        let (loaded, work) = (calls("loaded"), calls("work"));
        assert_eq!((loaded.iter().sum::<u64>(), &work[..]), (200, &[40][..]), "{loaded:?} {text}");
        assert!(loaded.len() <= 4, "{loaded:?}");
    }
}
