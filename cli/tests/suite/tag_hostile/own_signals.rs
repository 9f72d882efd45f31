//! Programs that forbid themselves what the tags of a log do: tags raise signals then, of which the
//! program gets none.

use std::io::Write;
use std::process::Stdio;

use super::{Companion, errors, program, run_restrained};
use crate::scratch;
use crate::tag::hmtt_tag;

/// Forbids reading the time stamp counter: to its process, to each of some threads, to a child.
/// None of them gets a signal of that. With two arguments only one thread forbids it to itself or
/// the first one, and then it waits.
const TIMES: &str = r#"
#include <pthread.h>
static volatile int faults;
static void handler(int number) { (void)number; faults++; if (faults > 100) _exit(9); }
static void forbid(void) { if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) _exit(8); }
static void *forbids(void *turns) {
    forbid();
    for (long i = 0; i < (long)turns; i++) call(i);
    if (!turns) pause();
    return 0;
}
int main(int count, char **words) {
    pthread_t all[4];
    char byte;
    int status = 0;
    signal(SIGSEGV, handler);
    for (int i = 0; i < 10; i++) call(i);
    if (count > 2) {
        if (words[1][0] == 't') { pthread_create(all, 0, forbids, 0); pause_ms(100); } else forbid();
        say("ready\n");
        while (read(0, &byte, 1) == 1) call(1);
    } else if (words[1][0] == 't') {
        for (int i = 0; i < 4; i++) pthread_create(all + i, 0, forbids, (void *)1000);
        for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
    } else if (words[1][0] == 'f') {
        pid_t child = fork();
        if (child == 0) { forbids((void *)1000); _exit(faults); }
        waitpid(child, &status, 0);
    } else {
        forbids((void *)1000);
    }
    if (faults || status) say("a tag has raised a signal\n");
    say("end\n");
    return 3;
}
"#;

/// How often a log says that `work` was called.
fn logged(log: &std::path::Path) -> u64 {
    let report = hmtt_tag(&["report", "--json"]).arg(log).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let functions = report["functions"].as_array().unwrap().iter();
    let work = functions.filter(|function| function["name"] == "work");
    work.map(|one| one["calls"].as_u64().unwrap()).sum()
}

#[test]
fn a_program_that_forbids_itself_the_time_goes_on_and_loses_the_tags_of_a_log() {
    let Some(times) = program("times", TIMES, &["-pthread"]) else { return };
    let log = scratch("tag-hostile-times.tags");
    for (how, follow) in [("p", None), ("t", None), ("f", Some("-f"))] {
        let mut command = hmtt_tag(&["run", "--sink", "log", "--overwrite", "-o"]);
        let command = command.arg(&log).args(follow).arg("--").arg(&times).arg(how);
        let tagged = command.output().unwrap();
        let text = format!("{how} {:?}: {}", tagged.status, errors(&tagged));
        assert_eq!((&tagged.stdout[..], tagged.status.code()), (&b"end\n"[..], Some(3)), "{text}");
        assert!(text.contains("may no longer read the time stamp counter"), "{text}");
        // The call whose tag found it out is complete.
        let expected = if how == "f" { 10..=10 } else { 11..=14 };
        assert!(expected.contains(&logged(&log)), "{} {text}", logged(&log));
        if how == "p" {
            assert_eq!(logged(&log), 11);
        }
    }
    let Some(strict) = program("times-strict", super::programs::RESTRAINED, &[]) else { return };
    let options = ["--sink", "log", "--overwrite", "-o", log.to_str().unwrap()];
    let tagged = run_restrained(&strict, &options, "s");
    let text = format!("{:?}: {}", tagged.status, errors(&tagged));
    assert_eq!(tagged.stdout, b"ready\nrestrained\nend\n", "{text}");
    assert_eq!(tagged.status.code(), Some(3), "{text}");
    assert!(text.contains("may no longer read the time stamp counter"), "{text}");
}

#[test]
fn a_log_with_times_of_a_process_that_may_not_read_the_time_is_refused() {
    let Some(times) = program("times-before", TIMES, &["-pthread"]) else { return };
    let log = scratch("tag-hostile-times-before.tags");
    let words = ["attach", "--sink", "log", "--overwrite", "-o", log.to_str().unwrap()];
    for how in ["p", "t"] {
        let mut companion = Companion::start(&times, &[how, "wait"]);
        assert_eq!(companion.line(), "ready");
        let refused = hmtt_tag(&words).arg(companion.pid()).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{}", errors(&refused));
        assert!(errors(&refused).contains("--no-time does not need it"), "{}", errors(&refused));
        let mut tag = hmtt_tag(&words);
        let tag = tag.args(["--no-time", &companion.pid()]).stderr(Stdio::piped());
        let mut tag = tag.spawn().unwrap();
        let maps = format!("/proc/{}/maps", companion.pid());
        while !std::fs::read_to_string(&maps).unwrap().contains("hmtt-tag-") {
            assert!(tag.try_wait().unwrap().is_none());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        companion.child.stdin.as_mut().unwrap().write_all(b"12345").unwrap();
        assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)), "{how}");
        let tag = tag.wait_with_output().unwrap();
        assert_eq!(tag.status.code(), Some(3), "{}", errors(&tag));
        assert_eq!(logged(&log), 5, "{}", errors(&tag));
    }
}

/// Sends system calls to itself as signals, by user dispatch or by a filter, and counts those that
/// it gets: none while it calls, and one that it makes itself.
const DISPATCHES: &str = r#"
static volatile char selector;
static volatile int got;
static void handler(int number, siginfo_t *information, void *context) {
    (void)number; (void)information; (void)context;
    selector = 0;
    got++;
}
int main(int count, char **words) {
    char text[32];
    (void)count;
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGSYS, &action, 0);
    for (int i = 0; i < 10; i++) call(i);
    if (words[1][0] == 'd') {
        // PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON.
        if (prctl(59, 1, 0, 0, &selector)) { say("no user dispatch\n"); return 5; }
    } else {
        struct sock_filter code[] = { LOAD, IF(SYS_write, ALLOWED), IF(SYS_exit_group, ALLOWED),
            IF(SYS_rt_sigreturn, ALLOWED), ALWAYS(SECCOMP_RET_TRAP) };
        filter(code, sizeof code / sizeof *code);
    }
    selector = 1;
    for (int i = 0; i < 300000; i++) call(i);
    int during = got;
    syscall(SYS_getppid);
    snprintf(text, sizeof text, "%d %d\n", during, got);
    say(text);
    _exit(5);
}
"#;

#[test]
fn a_program_gets_no_signal_of_the_calls_of_a_log() {
    let Some(dispatches) = program("dispatches", DISPATCHES, &[]) else { return };
    let log = scratch("tag-hostile-dispatches.tags");
    for (how, why) in [("d", "dispatches its system calls to itself"), ("f", "filter answers")] {
        let mut command = hmtt_tag(&["run", "--sink", "log", "--buffer-kb", "8", "--buffers", "2"]);
        let command = command.args(["--overwrite", "-o"]).arg(&log);
        let tagged = command.arg("--").arg(&dispatches).arg(how).output().unwrap();
        let text = format!("{how} {:?}: {}", tagged.status, errors(&tagged));
        if tagged.stdout == b"no user dispatch\n" {
            crate::skipped("this kernel has no user dispatch");
            continue;
        }
        assert_eq!((&tagged.stdout[..], tagged.status.code()), (&b"0 1\n"[..], Some(5)), "{text}");
        assert!(text.contains("make no more system calls") && text.contains(why), "{text}");
    }
}
