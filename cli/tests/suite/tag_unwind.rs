//! Tests programs that unwind their stack from a signal handler, which may have interrupted a stub.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::mappings;
use nix::unistd::Pid;

use crate::tag::{build, hmtt_tag};
use crate::{LargeFile, scratch};

const CANCEL: &str = include_str!("tag_unwind/cancel.cpp");
const SAMPLE: &str = include_str!("tag_unwind/sample.c");
const READS: &str = include_str!("tag_unwind/reads.c");
const LIBRARY: &str = include_str!("tag_unwind/library.c");

/// Kinds of tagging. Logs drop events, because otherwise most of the time would be spent on the
/// file.
const WAYS: [&[&str]; 6] = [
    &["--sink", "none"],
    &["--sink", "count"],
    &["--sink", "log", "--full", "drop"],
    &["--sink", "log", "--full", "drop", "--no-time"],
    &["--sink", "count", "--blocks", "*"],
    &["--sink", "log", "--full", "drop", "--blocks", "*"],
];

/// Returns the output of a tagged program.
fn run_tagged(name: &str, way: &[&str], words: &[&Path]) -> String {
    let log = LargeFile::new(&format!("{name}.out"));
    let mut command = hmtt_tag(&["run"]);
    let command = command.args(way).args(["--overwrite", "-o"]).arg(&*log).arg("--").args(words);
    let output = command.output().unwrap();
    // Status 3 means that the log dropped events.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{way:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn threads_cancelled_anywhere_run_their_destructors() {
    let flags = ["-fnon-call-exceptions"];
    for (name, more) in [("tag-cancel", &[][..]), ("tag-cancel-static", &["-static"])] {
        let Some(program) = build(name, CANCEL, &[&flags, more].concat()) else { return };
        for way in WAYS {
            assert_eq!(run_tagged(name, way, &[&program]), "40 of 40\n", "{name} {way:?}");
        }
    }
}

#[test]
fn backtraces_from_any_instruction_reach_main() {
    for (name, flags) in [
        ("tag-sample", &[][..]),
        ("tag-sample-static", &["-static"]),
        ("tag-sample-static-pie", &["-static-pie"]),
    ] {
        let Some(program) = build(name, SAMPLE, flags) else { return };
        for way in WAYS {
            assert_eq!(run_tagged(name, way, &[&program]), "0 without main\n", "{name} {way:?}");
        }
    }
}

/// Builds a program and a library that it loads on request.
fn with_library(name: &str) -> Option<(PathBuf, PathBuf)> {
    let program = build(name, SAMPLE, &["-DLIBRARY"])?;
    let library = build(&format!("lib{name}.so"), LIBRARY, &["-shared", "-fPIC"])?;
    Some((program, library))
}

#[test]
fn backtraces_from_libraries_loaded_later_reach_main() {
    let name = "tag-sample-library";
    let Some((program, library)) = with_library(name) else { return };
    for way in WAYS {
        let rules = [way, &["-i", "library=lib*tag-sample*"]].concat();
        let printed = run_tagged(name, &rules, &[&program, &library]);
        assert_eq!(printed, "0 without main\n", "{way:?}");
    }
    // The C library is tagged too, including functions that unwinders call.
    for way in [WAYS[1], WAYS[3]] {
        let rules = [way, &["-i", "library=*"]].concat();
        let printed = run_tagged(name, &rules, &[&program, &library]);
        assert_eq!(printed, "0 without main\n", "all, {way:?}");
    }
}

#[test]
fn tags_from_the_first_instruction_on_are_unwound() {
    let Some(program) = build("tag-sample-first", SAMPLE, &[]) else { return };
    for way in &WAYS[1..3] {
        let way = [way, &["--initializers"][..]].concat();
        assert_eq!(run_tagged("tag-sample-first", &way, &[&program]), "0 without main\n");
    }
}

/// A program that waits for a line before it starts.
struct Waiting {
    child: Child,
    image: Image,
}

impl Waiting {
    fn start(program: &Path, words: &[&Path]) -> Self {
        let mut command = Command::new(program);
        let command = command.arg("wait").args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut started = [0; 8];
        child.stdout.as_mut().unwrap().read_exact(&mut started).unwrap();
        Waiting { child, image: Image::read(program).unwrap() }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Whether a function begins with a jump.
    fn is_tagged(&self, function: &str) -> bool {
        let mapped = mappings(self.pid()).unwrap();
        let text = &self.image.text[0];
        let mapping = mapped.iter().find(|one| one.executable && one.path == self.image.path);
        let page = text.offset / 4096 * 4096;
        let bias = mapping.unwrap().start.0 - (text.start - (text.offset - page));
        let function = self.image.functions.iter().find(|one| one.name == function).unwrap();
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let mut byte = [0];
        memory.read_exact_at(&mut byte, function.start + bias).unwrap();
        byte == [0xe9]
    }

    /// Tags the program, and kills the controller as soon as a function has a tag.
    fn abandon(&mut self, way: &[&str], function: &str) {
        let output = scratch(&format!("tag-abandoned-{}", self.pid()));
        let mut command = hmtt_tag(&["attach"]);
        let command =
            command.args(way).args(["--overwrite", "-o"]).arg(output).arg(self.pid().to_string());
        let mut controller = command.stderr(Stdio::null()).spawn().unwrap();
        while !self.is_tagged(function) {
            assert!(controller.try_wait().unwrap().is_none(), "hmtt tag attach has ended");
        }
        controller.kill().unwrap();
        controller.wait().unwrap();
        assert!(self.is_tagged(function), "its tags stay");
    }

    /// Lets the program start, and returns its output.
    fn finish(mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        line
    }
}

#[test]
fn backtraces_reach_main_after_the_controller_was_killed() {
    for (name, flags) in [("tag-left", &[][..]), ("tag-left-static", &["-static"])] {
        let Some(program) = build(name, SAMPLE, flags) else { return };
        for way in WAYS {
            let mut waiting = Waiting::start(&program, &[]);
            waiting.abandon(way, "leaf");
            assert_eq!(waiting.finish(), "0 without main\n", "{name} {way:?}");
        }
    }
}

#[test]
fn unwind_tables_are_removed_with_the_tags() {
    let Some(program) = build("tag-left-out", SAMPLE, &[]) else { return };
    let mut waiting = Waiting::start(&program, &[]);
    let maps = |waiting: &Waiting| {
        let ranges = mappings(waiting.pid()).unwrap();
        ranges.iter().map(|range| (range.start, range.end, range.path.clone())).collect::<Vec<_>>()
    };
    let before = maps(&waiting);
    waiting.abandon(WAYS[2], "leaf");
    assert_ne!(maps(&waiting), before);
    let output = hmtt_tag(&["detach", &waiting.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(maps(&waiting), before);
    assert_eq!(waiting.finish(), "0 without main\n");
}

#[test]
fn a_table_that_a_handler_reads_is_not_removed() {
    let Some(program) = build("tag-reads", READS, &[]) else { return };
    let mut waiting = Waiting::start(&program, &[]);
    let log = LargeFile::new("tag-reads.log");
    let mut command = hmtt_tag(&["attach"]);
    let command =
        command.args(WAYS[2]).args(["--overwrite", "-o"]).arg(&*log).arg(waiting.pid().to_string());
    let mut controller = command.stderr(Stdio::null()).spawn().unwrap();
    while !waiting.is_tagged("leaf") {
        assert!(controller.try_wait().unwrap().is_none(), "hmtt tag attach has ended");
    }
    let mut input = waiting.child.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    let mut lines = BufReader::new(waiting.child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "reads");
    let output = hmtt_tag(&["detach", &waiting.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    controller.wait().unwrap();
    assert!(!waiting.is_tagged("leaf"));
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "has read");
    assert!(waiting.child.wait().unwrap().success());
}
