//! Tests programs that are stopped as a shell stops its jobs: `hmtt tag` leaves them stopped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tag::{build, hmtt_tag};
use crate::{scratch, wait_until};

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static atomic_int stop;
static atomic_long turns;
__attribute__((noipa)) long step(long n) { return n + 1; }
static void *run(void *unused) { (void)unused; do turns = step(turns); while (!stop); return 0; }
int main(void) {
    pthread_t t;
    puts("started"); fflush(stdout);
    pthread_create(&t, 0, run, 0);
    getchar();
    stop = 1;
    pthread_join(t, 0);
    puts(turns > 0 ? "right" : "wrong");
    return 0;
}
"#;

/// Kills a process at the end of the test, since a stopped process would never end.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the state of a process, as a letter of `/proc` (proc(5)).
fn state(pid: Pid) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_stopped_program_stays_stopped() {
    let Some(program) = build("tag-stopped", PROGRAM, &[]) else { return };
    let mut child = Command::new(&program);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut ended = Ended(child.spawn().unwrap());
    let child = &mut ended.0;
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    wait_until("the program is stopped", || state(pid) == 'T');
    let file = scratch("tag-stopped.tags");
    let map = scratch("tag-stopped.tags.json");
    let words = ["attach", "--sink", "log", "-o", file.to_str().unwrap(), &pid.to_string()];
    let tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
    // The map is written when the tags are in place.
    wait_until("the map is there", || map.exists() || state(pid) == 'Z');
    let log_bytes = || std::fs::metadata(&file).map_or(0, |data| data.len());
    kill(Pid::from_raw(tag.id() as i32), Signal::SIGINT).unwrap();
    let tag = tag.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&tag.stderr).into_owned();
    assert!(matches!(state(pid), 'T' | 't'), "{} {text}", state(pid));
    assert!(tag.status.success(), "{text}");
    // Nothing was called meanwhile, and a log without events is short.
    assert!(log_bytes() < 4096, "{}", log_bytes());
    kill(pid, Signal::SIGCONT).unwrap();
    drop(child.stdin.take());
    line.clear();
    output.read_to_string(&mut line).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(line, "right\n");
}
