//! Follows a program whose first thread has ended while others go on: the kernel shows that thread
//! without memory.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::Pid;

use super::blocked::{child_of, end_of, error_of, interrupt, rest_of, state};
use crate::tag::build;
use crate::{scratch, wait_for};

pub const SURVIVES: &str = include_str!("survives.c");
/// What the program prints, and its exit status.
pub const PRINTED: &str = "computed 1\nwaited\n";
pub const STATUS: i32 = 17;

/// The ways to follow a program.
const COMMANDS: [&[&str]; 3] = [&["monitor"], &["trace"], &["tag", "-i", "leaf"]];

fn command(words: &[&str], subcommand: &str, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.arg(words[0]).arg(subcommand).args(&words[1..]).arg("--overwrite").arg("-o").arg(file);
    command.stderr(Stdio::piped());
    command
}

#[test]
fn a_program_goes_on_whose_first_thread_has_ended_before_a_detach() {
    let Some(program) = build("monitor-survives", SURVIVES, &[]) else { return };
    for words in COMMANDS {
        let file = scratch(&format!("survived-run-{}", words[0]));
        let mut command = command(words, "run", &file);
        command.arg("--").arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut command = command.spawn().unwrap();
        let pid = command.id().cast_signed();
        wait_for(&mut command, "the first thread has ended", || {
            child_of(pid).is_some_and(|child| state(Pid::from_raw(child)) == Some('Z'))
        });
        interrupt(&command);
        let status = end_of(&mut command, words);
        assert_eq!(status.code(), Some(0), "{words:?}: {}", error_of(&mut command));
        assert!(std::fs::metadata(&file).unwrap().len() > 0, "{words:?}");
        assert_eq!(rest_of(&mut command), PRINTED, "{words:?}");
    }
}

#[test]
fn a_program_is_attached_to_whose_first_thread_has_ended() {
    let Some(program) = build("monitor-survives", SURVIVES, &[]) else { return };
    let mut running = Command::new(&program);
    let mut running = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(running.id().cast_signed());
    wait_for(&mut running, "its first thread has ended", || state(pid) == Some('Z'));
    for words in COMMANDS {
        for detaches in [false, true] {
            let file = scratch(&format!("survived-attach-{}", words[0]));
            let _ = std::fs::remove_file(&file);
            let mut command = command(words, "attach", &file).arg(pid.to_string()).spawn().unwrap();
            let tracer = format!("TracerPid:\t{}\n", command.id());
            let is_traced = || {
                let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
                let texts =
                    threads.map(|thread| std::fs::read_to_string(thread.path().join("status")));
                texts.flatten().filter(|text| text.contains(&tracer)).count() == 2
            };
            wait_for(&mut command, "the process is traced", is_traced);
            std::thread::sleep(std::time::Duration::from_millis(100));
            if detaches {
                let words = [words[0], "detach", &pid.to_string()];
                let detached = crate::hmtt(&words);
                assert!(detached.status.success(), "{words:?}: {detached:?}");
            } else {
                interrupt(&command);
            }
            let status = end_of(&mut command, words);
            assert_eq!(status.code(), Some(0), "{words:?}: {}", error_of(&mut command));
            assert!(std::fs::metadata(&file).unwrap().len() > 0, "{words:?}");
        }
    }
    assert_eq!(rest_of(&mut running), PRINTED);
    assert_eq!(running.wait().unwrap().code(), Some(STATUS));
}
