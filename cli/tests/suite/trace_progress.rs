//! Tests what `hmtt trace run` shows while it writes a trace: a line on a terminal, which is
//! removed, or lines if they are asked for.

use std::process::{Command, Stdio};

use crate::tag::build;
use crate::{scratch, skipped};

const SPINS: &str = include_str!("monitor/spins.c");

/// What a shell command writes to a terminal; `None` if that is not possible here.
fn on_terminal(words: &str) -> Option<String> {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("stty cols 100; {words}"), "/dev/null"]);
    command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| skipped(format_args!("script: {error}"))).ok()?;
    // `script` types Ctrl-D at the end of its input.
    let open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(open);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    Some(text)
}

#[test]
fn a_line_on_a_terminal_is_rewritten_and_removed() {
    let Some(program) = build("trace-spins", SPINS, &[]) else { return };
    let file = scratch("trace-progress.acc");
    let (hmtt, program, file) = (env!("CARGO_BIN_EXE_hmtt"), program.display(), file.display());
    let run = format!("{hmtt} trace run --overwrite -o {file}");
    let after = "echo after 1>&2";
    for (options, output, is_shown) in
        [("", "> /dev/null", true), ("", "", false), ("--progress", "", true)]
    {
        let Some(text) = on_terminal(&format!("{run} {options} -- {program} {output}; {after}"))
        else {
            return;
        };
        let shown = text.split('\r').filter(|line| line.contains(" written in ")).count();
        assert_eq!(shown >= 2, is_shown, "{options} {output}: {text:?}");
        // The line is cleared before anything else is printed.
        let (line, rest) = text.rsplit_once("after").unwrap();
        assert_eq!(rest.trim(), "");
        assert!(!is_shown || line.ends_with("\u{1b}[2K"), "{text:?}");
    }
}

#[test]
fn lines_are_printed_if_they_are_asked_for() {
    let Some(program) = build("trace-spins", SPINS, &[]) else { return };
    let file = scratch("trace-progress-lines.acc");
    for is_asked in [true, false] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(["trace", "run", "--overwrite", "-o"]).arg(&file);
        command.args(is_asked.then_some("--progress"));
        let output = command.arg("--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let is_line = |line: &str| {
            let rest = line.strip_prefix("hmtt: ").and_then(|line| line.strip_suffix(" s"));
            rest.is_some_and(|rest| rest.split_once(" written in ").is_some())
        };
        assert!(text.lines().all(is_line), "{text}");
        assert_eq!(text.is_empty(), !is_asked, "{text}");
    }
}
