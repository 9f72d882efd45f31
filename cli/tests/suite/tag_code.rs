//! Tests `hmtt tag` on programs whose segments of instructions contain more than instructions, or instructions that no
//! compiler makes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use crate::scratch;
use crate::tag::{build, calls, hmtt_tag};

/// Runs a program with its functions tagged, and checks that it behaves as without tags. Returns the counts, and what was
/// printed on standard error.
fn run_tagged(name: &str, program: &Path, words: &[&str]) -> (BTreeMap<String, u64>, String) {
    let counts = scratch(&format!("{name}.json"));
    let program = program.to_str().unwrap();
    let plain = Command::new(program).output().unwrap();
    let mut tagged = hmtt_tag(&["run", "-o", counts.to_str().unwrap()]);
    let tagged = tagged.args(words).args(["--", program]).output().unwrap();
    let errors = String::from_utf8_lossy(&tagged.stderr).into_owned();
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    assert_eq!(seen(&tagged), seen(&plain), "{name}: {errors}");
    (calls(&counts), errors)
}

/// `main` has bytes that are no instruction.
const UNDECODABLE_MAIN: &str = r#"
#include <stdio.h>
__attribute__((noipa)) int step(int n) { return n + 1; }
__attribute__((constructor)) static void early(void) { if (step(1) != 2) puts("?"); }
int main(int c, char **v) {
    if (c > 9) __asm__ volatile("lock; nop");
    for (int i = 0; i < 10; i++) c = step(c);
    puts("end");
    return c == 11 ? 4 : 1;
}
"#;

#[test]
fn a_main_that_cannot_be_changed_does_not_prevent_other_tags() {
    for flags in [&["-O1"][..], &["-O1", "-static"], &["-O1", "-no-pie"]] {
        let name = format!("tag-code-main{}", flags.concat());
        let Some(program) = build(&name, UNDECODABLE_MAIN, flags) else { return };
        let (counts, errors) = run_tagged(&name, &program, &[]);
        assert!(
            errors.contains("main is not tagged") && errors.contains("no instruction at"),
            "{errors}"
        );
        // The call before `main` is counted, too: the tags are put in at the entry point.
        assert_eq!(counts.get("step"), Some(&11), "{counts:?}");
        assert!(!counts.contains_key("main"), "{counts:?}");
        let (counts, _) = run_tagged(&name, &program, &["--initializers"]);
        assert_eq!(counts.get("step"), Some(&11), "{counts:?}");
    }
}
