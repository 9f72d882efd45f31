//! Programs that forbid themselves to read the time stamp counter, which generated code does,
//! behave as without monitoring.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::scratch;
use crate::tag::build;

const FORBIDS_CLOCK: &str = include_str!("forbids_clock.c");
const COMMANDS: [&str; 2] = ["monitor", "trace"];

fn command(name: &str, subcommand: &str) -> Command {
    let file = scratch(&format!("forbidden-clock-{subcommand}.{name}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args([name, subcommand, "--overwrite", "-o"]);
    command.arg(file);
    command
}

#[test]
fn a_program_that_forbids_itself_the_clock_is_left_with_a_warning() {
    let Some(program) = build("monitor-forbids-clock", FORBIDS_CLOCK, &[]) else { return };
    for name in COMMANDS {
        for how in ["", "reads"] {
            let plain = Command::new(&program).arg(how).output().unwrap();
            let output = command(name, "run").arg("--").arg(&program).arg(how).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!((plain.status.code(), &output.stdout), (Some(0), &plain.stdout), "{error}");
            assert_eq!(output.status.code(), Some(3), "{name} {how}: {error}");
            assert!(error.contains("time stamp counter (PR_SET_TSC)"), "{error}");
        }
    }
}

/// The process is asked, or, if its thread is within a system call, the first signal tells.
#[test]
fn a_process_that_has_forbidden_itself_the_clock_continues() {
    let Some(program) = build("monitor-forbids-clock", FORBIDS_CLOCK, &[]) else { return };
    for name in COMMANDS {
        let mut command_line = Command::new(&program);
        let mut running = command_line.arg("late").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(running.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let attached = command(name, "attach").arg(running.id().to_string()).output().unwrap();
        let error = String::from_utf8_lossy(&attached.stderr);
        line.clear();
        output.read_to_string(&mut line).unwrap();
        assert_eq!((running.wait().unwrap().code(), &*line), (Some(0), "1\n"), "{name}: {error}");
        assert!(error.contains("time stamp counter (PR_SET_TSC)"), "{name}: {error}");
        assert!([Some(1), Some(3)].contains(&attached.status.code()), "{name}: {error}");
    }
}
