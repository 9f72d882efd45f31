//! Tests `hmtt trace` where something fails: a full disk, a program that writes into what it shares
//! with `hmtt`. The program is unharmed, and the trace is read up to where it is whole.

use std::process::{Command, Output};

use crate::tag::build;
use crate::trace_selected::info;
use crate::{hmtt, scratch, skipped};

const BUSY: &str = include_str!("monitor/busy.c");
const FORGES: &str = include_str!("trace/forges.c");

/// Runs a shell script as root of namespaces of its own, where it may mount. `None` if that is not
/// possible here.
fn in_namespaces(script: &str) -> Option<Output> {
    let run = |script: &str| Command::new("unshare").args(["-Urm", "sh", "-c", script]).output();
    match run("mount -t tmpfs none /mnt") {
        Ok(output) if output.status.success() => run(script).ok(),
        other => {
            skipped(format!("no file system can be mounted: {other:?}"));
            None
        }
    }
}

#[test]
fn a_trace_on_a_full_disk_is_read_up_to_its_last_whole_chunk() {
    let Some(program) = build("trace-busy", BUSY, &[]) else { return };
    let plain = Command::new(&program).args(["signals"]).output().unwrap();
    let file = scratch("trace-full-disk.acc");
    let (hmtt_program, program, copy) =
        (env!("CARGO_BIN_EXE_hmtt"), program.display(), file.display());
    let script = format!(
        "mount -t tmpfs -o size=256k none /mnt && cd /mnt && \
         {hmtt_program} trace run -o x.acc -- {program} signals; \
         status=$?; cp x.acc {copy}; exit $status"
    );
    let Some(output) = in_namespaces(&script) else { return };
    let error = String::from_utf8_lossy(&output.stderr);
    // The program is unharmed, and its status is that of the command.
    assert_eq!(
        (output.status.code(), &output.stdout),
        (plain.status.code(), &plain.stdout),
        "{error}"
    );
    let words = "cannot write x.acc: No space left on device";
    assert!(
        error.contains(words) && error.contains("the trace ends where this happened"),
        "{error}"
    );
    assert!(std::fs::metadata(&file).unwrap().len() <= 256 << 10);
    let path = file.to_str().unwrap();
    for arguments in [&["info", path][..], &["decode", path], &["trace", "evaluate", path]] {
        let output = hmtt(arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let both = [output.stdout, output.stderr].concat();
        let both = String::from_utf8_lossy(&both);
        assert!(both.contains("the file is cut: what follows is missing"), "{arguments:?}");
    }
    let stated = info(&file);
    assert_eq!(stated["cut"], true);
    assert!(stated["accesses"].as_u64() > Some(100_000), "{stated}");
}

#[test]
fn a_program_that_writes_into_the_rings_harms_its_trace_only() {
    let Some(program) = build("trace-forges", FORGES, &["-w"]) else { return };
    let plain = Command::new(&program).output().unwrap();
    let (sum, _) = std::str::from_utf8(&plain.stdout).unwrap().split_once(' ').unwrap();
    for full in ["wait", "drop"] {
        let file = scratch(&format!("trace-forges-{full}.acc"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(["trace", "run", "--no-superblocks", "--full", full, "-o"]).arg(&file);
        command.arg("--").arg(&program);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        // It has found the memory.
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{sum} 1\n"), "{error}");
        assert_eq!(output.status.code(), plain.status.code(), "{error}");
        assert!(error.contains("chunks of accesses are not in the trace to their ends"), "{error}");
        assert!(!error.contains("panicked"), "{error}");
        let read = hmtt(&["info", file.to_str().unwrap()]);
        assert_eq!(read.status.code(), Some(3), "{read:?}");
        let stated = info(&file);
        assert!(stated["invalid_chunks"].as_u64() > Some(0), "{stated}");
        // How much is dropped depends on the machine, and is stated.
        let has_dropped = full == "drop" && stated["dropped_words"].as_u64() > Some(0);
        let least = if has_dropped { 10_000 } else { 1_000_000 };
        assert!(stated["accesses"].as_u64() > Some(least), "{stated}");
    }
}
