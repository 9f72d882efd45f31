//! Tests `hmtt tag` on programs of many kinds, each built in several ways: counts equal those of
//! callgrind, every call in a log has an end, and the programs behave as without tags.

mod libraries;
mod oracle;
mod packages;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built::built;
use crate::{scratch, skipped};
use oracle::{Real, functions};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/tag_real/programs");

/// Builds one of the programs; `None` if the test is skipped. Its name contains the flags.
fn build(source: &str, flags: &str) -> Option<Real> {
    let (stem, extension) = source.split_once('.').unwrap();
    let compiler = match extension {
        "cc" => "g++",
        "rs" => "rustc",
        _ => "cc",
    };
    let name = format!("real-{stem}{}", flags.split_whitespace().collect::<String>());
    let program = compile(compiler, &name, flags, &[&format!("{FOLDER}/{source}")])?;
    Some(Real::new(&name, program))
}

/// Compiles files; `None` if the test is skipped.
fn compile(compiler: &str, name: &str, flags: &str, files: &[&str]) -> Option<PathBuf> {
    let flags: Vec<&str> = flags.split_whitespace().collect();
    built(name, &format!("{flags:?} {files:?}"), |program| {
        let mut command = Command::new(compiler);
        command.arg("-o").arg(program).args(files).args(flags);
        if compiler != "rustc" {
            command.args(["-pthread", "-w", "-lm"]);
        }
        command
    })
}

/// Builds and checks a program in several ways.
fn check(source: &str, flags: &[&str], adapt: impl Fn(&mut Real)) {
    for flags in flags {
        let Some(mut real) = build(source, flags) else { return };
        if flags.contains("-static") {
            // The C library selects functions for other processors than the one that valgrind
            // emulates.
            let Some(dynamic) =
                build(source, &flags.replace("-static-pie", "").replace("-static", ""))
            else {
                return;
            };
            real.only = Some(functions(&dynamic.program));
        }
        adapt(&mut real);
        if real.check().is_none() {
            return;
        }
    }
}

#[test]
fn exceptions_pass_through() {
    let flags =
        ["-O2", "-O0", "-Os -falign-functions=1", "-O2 -static", "-O3 -fcf-protection=full"];
    check("throws.cc", &flags, |_| {});
}

#[test]
fn longjmp_may_leave_any_number_of_functions() {
    // Callgrind does not see calls that the kernel makes.
    let flags = ["-O2", "-O0", "-O1 -fno-pie -no-pie"];
    check("jumps.c", &flags, |real| real.known = vec![("handler", 200)]);
}

#[test]
fn tail_calls_are_exits_and_entries() {
    for flags in ["-O2", "-Os", "-O3 -fno-plt -fcf-protection=full", "-O2 -static-pie", "-O2 -flto"]
    {
        check("tails.c", &[flags], |real| real.refused = &["quiet"]);
    }
    // All exits of these functions are tagged.
    let Some(real) = build("tails.c", "-O2") else { return };
    assert_eq!(real.logged().abandoned, 0);
    // Without tail calls and alignment, the `ret` after a call has no space for a jump.
    check("tails.c", &["-O1 -fno-pie -no-pie"], |real| real.refused = &["quiet"]);
}

#[test]
fn jump_tables_are_not_taken_for_exits() {
    let flags =
        ["-O2", "-O2 -fno-pie -no-pie", "-O3 -fcf-protection=full", "-O0", "-Os -fno-jump-tables"];
    check("machine.c", &flags, |_| {});
    let Some(real) = build("machine.c", "-O2") else { return };
    assert_eq!(real.logged().abandoned, 0);
}

#[test]
fn a_jump_to_the_entry_of_a_function_is_an_entry() {
    for flags in ["-O2", "-O1 -fno-pie -no-pie", "-Os -falign-functions=1"] {
        check("loops.c", &[flags], |_| {});
    }
}

#[test]
fn functions_of_a_few_bytes_are_tagged() {
    // These functions consist of a `ret`, with the next function directly after it.
    let nothing = &["a1", "a3", "nothing", "nothing_more"];
    let flags = [
        "-O2",
        "-O1 -falign-functions=1",
        "-Os -fno-pie -no-pie",
        "-O2 -flto",
        "-O2 -ffunction-sections -Wl,--gc-sections",
        "-O2 -static-pie",
    ];
    check("tiny.c", &flags, |real| real.refused = nothing);
}

#[test]
fn threads_may_end_in_any_way() {
    check("threads.c", &["-O2", "-O0"], |_| {});
}

#[test]
fn panics_pass_through() {
    let flags = "--edition=2021 -O";
    check("panics.rs", &[flags], |real| {
        real.refused = &["<alloc::vec::Vec<u8> as core::ops::drop::Drop>::drop"];
    });
}

#[test]
fn programs_that_start_others_count_only_their_own_calls() {
    // Callgrind adds the calls of children, or reports nothing about processes that execute another
    // program.
    let Some(real) = build("starts.c", "-O2") else { return };
    let (plain, (counted, counts), logged) = (real.plain(), real.counted(), real.logged());
    for output in [&counted, &logged.output] {
        assert_eq!((output.status.code(), &output.stdout), (plain.status.code(), &plain.stdout));
    }
    let expected =
        [("step", 5), ("wait_for", 20), ("by_vfork", 10), ("by_spawn", 5), ("by_fork", 5)];
    for (name, calls) in expected {
        assert_eq!((counts[name], logged.calls[name]), (calls, calls), "{name}");
    }
}

#[test]
fn signal_handlers_may_run_at_any_time() {
    // With -O1, recursive calls stay calls.
    let Some(real) = build("signals.c", "-O1") else { return };
    let ((counted, counts), logged) = (real.counted(), real.logged());
    for (output, calls) in [(counted, counts), (logged.output, logged.calls)] {
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let counted = ["leaf", "step", "fall", "handler"].map(|name| calls[name]);
        assert_eq!(printed, counted);
    }
    assert_eq!(logged.abandoned, 0);
}

#[test]
fn a_closed_pipe_ends_a_program() {
    let mut command = Command::new("sh");
    let pipe = "set -- \"$1\" tag run --sink none -- yes; { \"$@\"; echo $? >&2; } | head -n 1";
    let output = command.args(["-c", pipe, "sh", env!("CARGO_BIN_EXE_hmtt")]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"y\n");
    assert!(complaint.contains("SIGPIPE"), "{complaint}");
}

#[test]
fn a_stripped_program_has_the_same_counts() {
    let Some(mut real) = build("machine.c", "-O2") else { return };
    real.name = "real-machine-whole".into();
    let image = hmtt_probe::elf::Image::read(&real.program).unwrap();
    let (_, counts) = real.counted();
    let stripped = scratch("real-machine-stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&real.program).output();
    if let Err(error) = strip {
        return skipped(format!("strip: {error}"));
    }
    real.program = stripped;
    let (_, by_address) = real.counted();
    for name in ["add", "multiply", "threaded", "switched", "dispatched", "main"] {
        let function = image.functions.iter().find(|function| function.name == name).unwrap();
        assert_eq!(by_address[&format!("fn_{:x}", function.start)], counts[name], "{name}");
    }
}

#[test]
fn counts_equal_those_of_gprof() {
    let Some(real) = build("tails.c", "-O2 -pg") else { return };
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(&real.program).current_dir(folder.path()).output().unwrap();
    assert_eq!(ran.status.code(), Some(5));
    let file = folder.path().join("gmon.out");
    let output = Command::new("gprof").args(["-b", "-q"]).arg(&real.program).arg(file).output();
    let output = match output {
        Err(error) => return skipped(format!("gprof: {error}")),
        Ok(output) => output,
    };
    let expected = gprof(&String::from_utf8(output.stdout).unwrap());
    assert!(expected.len() > 12, "{expected:?}");
    let (_, counts) = real.counted();
    for (name, calls) in expected {
        assert_eq!(counts[&name], calls, "{name}");
    }
}

/// Parses the calls of a call graph from lines that start with a number: `[1] 0.0 0.00 0.00 20+180
/// self [1]`.
fn gprof(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| line.starts_with('['));
    let counts = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let sum = words.get(4)?.split('+').map(str::parse::<u64>).sum::<Result<u64, _>>();
        Some(((*words.get(5)?).to_owned(), sum.ok()?))
    });
    counts.collect()
}

/// Returns the files of a directory with this extension, except some.
fn sources(folder: &Path, without: &[&str]) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let wanted = names.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".c") && !without.contains(&name)
    });
    wanted.map(|path| path.to_str().unwrap().to_owned()).collect()
}
