//! Tests that no system call of a program fails or ends early because `hmtt` stops its threads,
//! also if it does so again and again within one call.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::scratch;
use crate::sequences::attached;
use crate::tag::build;

const SOURCE: &str = include_str!("interrupted/waits.c");
/// How long `hmtt` is attached, and how often it attaches. Waits of the program take 150 ms.
const ATTACHED: Duration = Duration::from_millis(70);
const TIMES: usize = 5;

fn start(command: &mut Command) -> (Child, impl BufRead + use<>) {
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    (program, output)
}

/// Lets signals be sent to the program, ends it, and checks what it prints.
fn check(mut program: Child, mut output: impl Read, case: &str) {
    let mut input = program.stdin.take().unwrap();
    for _ in 0..TIMES {
        std::thread::sleep(ATTACHED);
        let _ = input.write_all(b"s");
    }
    drop(input);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let status = program.wait().unwrap();
    assert_eq!(text, "end\n", "{case}: {status}");
    // `hmtt` reports by 3 what has run natively.
    assert!(matches!(status.code(), Some(0 | 3)), "{case}: {status}");
}

fn check_attached(words: &[&str], program: &Path) {
    let (running, output) = start(&mut Command::new(program));
    for _ in 0..TIMES {
        let result = attached(words, running.id(), || std::thread::sleep(ATTACHED));
        let error = String::from_utf8_lossy(&result.stderr);
        assert!(
            matches!(result.status.code(), Some(0 | 3)),
            "{words:?}: {:?} {error}",
            result.status
        );
    }
    check(running, output, &format!("{words:?}"));
}

fn check_run(words: &[&str], program: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    let file = scratch(&format!("interrupted-run-{}", words[0]));
    command.args(words).args(["--overwrite", "-o"]).arg(file).arg("--").arg(program);
    let (running, output) = start(command.stderr(Stdio::null()));
    check(running, output, &format!("{words:?}"));
}

#[test]
fn attaching_and_detaching_interrupts_no_call() {
    let Some(program) = build("interrupted-waits", SOURCE, &["-w"]) else { return };
    for words in [["tag", "attach"], ["monitor", "attach"], ["trace", "attach"]] {
        check_attached(&words, &program);
    }
}

#[test]
fn samples_and_budgets_interrupt_no_call() {
    let Some(program) = build("interrupted-waits", SOURCE, &["-w"]) else { return };
    check_run(&["trace", "run", "--sample", "20ms/30ms"], &program);
    check_run(&["trace", "run", "--budget", "50%"], &program);
    check_run(&["tag", "run"], &program);
    check_run(&["monitor", "run"], &program);
}
