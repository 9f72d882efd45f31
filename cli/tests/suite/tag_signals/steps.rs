//! Programs that execute themselves in single steps.

use std::process::Command;

use super::{WAYS, logged, run};
use crate::scratch;
use crate::tag::build;

const STEPS: &str = include_str!("steps.c");
/// Buffers that are full several times while the program executes steps.
const SMALL: &[&str] = &["--sink", "log", "--buffer-kb", "8", "--buffers", "2"];

/// Number of the first line in which two texts differ, and the lines around it; `None` if they are
/// equal.
fn first_difference(first: &str, second: &str) -> Option<(usize, [String; 2])> {
    let equal = first.lines().zip(second.lines()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| -> String {
        text.lines().skip(equal.saturating_sub(4)).take(8).collect::<Vec<_>>().join(", ")
    };
    (first != second).then(|| (equal, [around(first), around(second)]))
}

#[test]
fn a_program_that_steps_itself_takes_the_steps_it_takes_without_tags() {
    let Some(program) = build("signal-steps", STEPS, &[]) else { return };
    let plain = Command::new(&program).output().unwrap();
    let steps = String::from_utf8(plain.stdout).unwrap();
    assert!(steps.lines().count() > 2000, "{steps}");
    for options in WAYS.into_iter().chain([SMALL]) {
        let file = scratch("signal-steps.out");
        let tagged = run(options, &program, &[], &file);
        let error = String::from_utf8_lossy(&tagged.stderr);
        let text = String::from_utf8_lossy(&tagged.stdout);
        assert_eq!(first_difference(&text, &steps), None, "{options:?}: {error}");
        assert_eq!(tagged.status.code(), Some(5), "{options:?}: {error}");
        if options[1] == "log" {
            let calls = logged(&file);
            let count = |name| calls.get(name).copied();
            assert_eq!(
                (count("outer"), count("leaf")),
                (Some(101), Some(303)),
                "{options:?}: {error}"
            );
        }
    }
}
