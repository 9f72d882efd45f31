//! Kills `hmtt monitor` and `hmtt trace` while they follow a running program: the next attach or
//! detach finds what is left, removes it and goes on.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::unistd::Pid;

use super::blocked::{end_of, error_of, interrupt, rest_of, state};
use super::survived::{PRINTED, STATUS, SURVIVES};
use crate::tag::build;
use crate::{hmtt, scratch, wait_for};

/// What is killed.
const KILLED: [&str; 2] = ["monitor", "trace"];
/// What comes after that.
const NEXT: [&[&str]; 6] = [
    &["monitor", "attach"],
    &["trace", "attach"],
    &["tag", "attach", "-i", "leaf"],
    &["monitor", "detach"],
    &["trace", "detach"],
    &["tag", "detach"],
];

/// Begins to follow a process, and waits until its threads have executed translated code.
fn attach(words: &[&str], pid: Pid) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(words).args(["--overwrite", "-o"]).arg(scratch("killed-output"));
    let mut command = command.arg(pid.to_string()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut command, "its memory is mapped", || maps(pid).contains("hmtt-tag"));
    let tracer = format!("TracerPid:\t{}\n", command.id());
    wait_for(&mut command, "its threads run", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let texts = threads.map(|thread| std::fs::read_to_string(thread.path().join("status")));
        let is_traced = |text: &String| text.contains(&tracer) && !text.contains("State:\tt");
        texts.flatten().filter(is_traced).count() == 2
    });
    std::thread::sleep(Duration::from_millis(50));
    command
}

/// Mappings of a process whose first thread may have ended.
fn maps(pid: Pid) -> String {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("maps")).ok()).collect()
}

/// Targets of the descriptors of a process.
fn files(pid: Pid) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let folders = threads.filter_map(|thread| std::fs::read_dir(thread.path().join("fd")).ok());
    let links = folders.flatten().flatten().filter_map(|one| std::fs::read_link(one.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

#[test]
fn what_a_killed_controller_has_left_is_removed_by_the_next_one() {
    let Some(program) = build("monitor-survives", SURVIVES, &[]) else { return };
    for killed in KILLED {
        let mut running = Command::new(&program);
        running.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = running.spawn().unwrap();
        let pid = Pid::from_raw(running.id().cast_signed());
        wait_for(&mut running, "its first thread has ended", || state(pid) == Some('Z'));
        for next in NEXT {
            let mut first = attach(&[killed, "attach"], pid);
            first.kill().unwrap();
            first.wait().unwrap();
            if next[1] == "detach" {
                let detached = hmtt(&[next[0], next[1], &pid.to_string()]);
                assert!(detached.status.success(), "{killed}, {next:?}: {detached:?}");
            } else {
                let mut second = attach(next, pid);
                interrupt(&second);
                let status = end_of(&mut second, next);
                let error = error_of(&mut second);
                assert_eq!(status.code(), Some(0), "{killed}, {next:?}: {error}");
            }
            assert!(!maps(pid).contains("hmtt-tag"), "{killed}, {next:?}");
            assert!(files(pid).iter().all(|file| !file.contains("hmtt")), "{killed}, {next:?}");
        }
        let nothing = hmtt(&["monitor", "detach", &pid.to_string()]);
        let error = String::from_utf8_lossy(&nothing.stderr);
        assert!(error.contains("is not followed"), "{error}");
        assert_eq!(rest_of(&mut running), PRINTED);
        assert_eq!(running.wait().unwrap().code(), Some(STATUS));
    }
}
