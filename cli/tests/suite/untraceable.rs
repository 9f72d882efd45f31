//! Tests that a traced program of the same user cannot trace its controller, read its memory or
//! open its descriptors.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::{skipped, tag};

/// Prints what it may do with its parent.
const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

static const char *name(long result) { return result >= 0 ? "allowed" : strerror(errno); }

int main(void) {
    char path[64];
    int parent = getppid();
    printf("trace: %s\n", name(ptrace(PTRACE_SEIZE, parent, 0, 0)));
    snprintf(path, sizeof path, "/proc/%d/mem", parent);
    printf("memory: %s\n", name(open(path, O_RDWR)));
    snprintf(path, sizeof path, "/proc/%d/fd/1", parent);
    printf("descriptor: %s\n", name(readlink(path, path, sizeof path)));
    return 0;
}
"#;

/// Runs a command in a folder, without the rights of root if there are any. Returns its output.
fn run(folder: &Path, words: &[&str]) -> Option<String> {
    // SAFETY: geteuid only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut command = Command::new(if is_root { "setpriv" } else { words[0] });
    if is_root {
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--",
        ]);
        command.arg(words[0]);
    }
    let output = command.args(&words[1..]).current_dir(folder).env("HOME", folder).output();
    match output {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{words:?}: {errors}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            skipped(format!("setpriv: {error}"));
            None
        }
    }
}

#[test]
fn a_traced_program_cannot_trace_its_controller() {
    let Some(program) = tag::build("untraceable", PROGRAM, &[]) else { return };
    // In a folder that any user can enter.
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path();
    std::fs::set_permissions(own, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::copy(program, own.join("program")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_hmtt"), own.join("hmtt")).unwrap();
    // The shell does not execute the program in its own place, because it has something to do after
    // it.
    let Some(plain) = run(own, &["sh", "-c", "./program; exit 0"]) else { return };
    if !plain.contains("trace: allowed\n") {
        return skipped(format!("children may not trace their parents here: {plain}"));
    }
    let program = ["--", "./program"];
    for command in [
        &["tag", "run", "-o", "counts.json"][..],
        &["monitor", "run", "-o", "profile"],
        &["trace", "run", "-o", "trace.acc"],
    ] {
        let words = [&["./hmtt"], command, &program].concat();
        let Some(output) = run(own, &words) else { return };
        let expected = "trace: Operation not permitted\nmemory: Permission denied\n\
                        descriptor: Permission denied\n";
        assert!(output.contains(expected), "{command:?}: {output}");
    }
}
