//! Waits for the end of a program, one of whose threads was killed while this process traced it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use hmtt_probe::ptrace::wait_for_end;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A program with two threads.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *wait(void *unused) { (void)unused; puts("ready"); fflush(stdout); pause(); return 0; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, wait, 0);
    pthread_join(thread, 0);
}
"#;
/// After this time, the wait is taken to be endless.
const LONGEST: Duration = Duration::from_secs(300);

#[test]
fn the_end_of_a_program_is_known_although_a_traced_thread_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("threads.c"), folder.path().join("threads"));
    std::fs::write(&source, SOURCE).unwrap();
    match Command::new("cc").args(["-pthread", "-o"]).args([&program, &source]).status() {
        Err(error) => return eprintln!("skipped: cc: {error}"),
        Ok(status) => assert!(status.success()),
    }
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads: Vec<i32> = threads
        .map(|thread| thread.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(threads.len(), 2);
    for thread in threads {
        ptrace::seize(Pid::from_raw(thread), ptrace::Options::empty()).unwrap();
    }
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        eprintln!("the end was not reported");
        std::process::abort();
    });
    kill(pid, Signal::SIGKILL).unwrap();
    let end = wait_for_end(pid).unwrap();
    assert!(end.is_err_and(|signal| signal == Signal::SIGKILL));
    assert!(child.wait().is_err(), "its end has been taken");
}
