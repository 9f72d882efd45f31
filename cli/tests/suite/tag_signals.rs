//! Tests signals in tagged programs: handlers see the addresses and registers of the original code,
//! and their changes take effect.

mod steps;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, skipped};

const THROWS: &str = include_str!("tag_signals/throws.cc");
const REPAIRS: &str = include_str!("tag_signals/repairs.c");
const INTERRUPTED: &str = include_str!("tag_signals/interrupted.c");
const STACKS: &str = include_str!("tag_signals/stacks.c");
const WAITS: &str = include_str!("tag_signals/waits.c");
const SEES: &str = include_str!("tag_signals/sees.c");
const DIES: &str = include_str!("tag_signals/dies.c");

/// Options of each kind of tagging.
const WAYS: [&[&str]; 8] = [
    &["--sink", "none"],
    &["--sink", "none", "--blocks", "*"],
    &["--sink", "count"],
    &["--sink", "count", "--blocks", "*"],
    &["--sink", "log"],
    &["--sink", "log", "--blocks", "*"],
    &["--sink", "log", "--no-time"],
    &["--sink", "log", "--no-time", "--blocks", "*"],
];
/// Functions whose calls the interrupted program itself counts.
const COUNTED: [&str; 6] = ["leaf", "tail", "outer", "loops", "reads", "divides"];

/// Runs a program with tags, whose counts or log are written to the file.
fn run(options: &[&str], program: &Path, words: &[&str], file: &Path) -> Output {
    let mut command = hmtt_tag(&["run"]);
    command.args(options);
    if options[1] != "none" {
        command.args(["--overwrite", "-o"]).arg(file);
    }
    command.arg("--").arg(program).args(words).output().unwrap()
}

/// Checks that a program behaves the same with all kinds of tagging as without tags. `expected`:
/// its output.
fn is_unchanged(name: &str, program: &Path, words: &[&str], expected: &str) {
    let plain = Command::new(program).args(words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&plain.stdout), expected);
    for options in WAYS {
        let tagged = run(options, program, words, &scratch(&format!("{name}.out")));
        let text = String::from_utf8_lossy(&tagged.stdout);
        let status = (tagged.status.code(), plain.status.code());
        let error = String::from_utf8_lossy(&tagged.stderr);
        assert_eq!((&*text, status.0), (expected, status.1), "{name} {options:?}: {error}");
    }
}

#[test]
fn handlers_throw_out_of_a_fault_at_a_first_instruction() {
    for (name, flags) in [("signal-throws", &[][..]), ("signal-throws-static", &["-static"])] {
        let flags = [&["-fnon-call-exceptions"], flags].concat();
        let Some(program) = build(name, THROWS, &flags) else { return };
        is_unchanged(name, &program, &[], "44\n");
    }
}

#[test]
fn handlers_find_the_instruction_that_faults() {
    let own = ["-DOWN_RESTORER", "-rdynamic"];
    for (name, flags) in [("signal-repairs", &["-rdynamic"][..]), ("signal-restorer", &own)] {
        let Some(program) = build(name, REPAIRS, flags) else { return };
        is_unchanged(name, &program, &[], "40\n");
        is_unchanged(name, &program, &["more"], "40\nfault in get\n");
    }
}

/// Parses the number of calls of each function from the interrupted program's output, and checks
/// that it reports no error.
fn own_counts(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let mut own: BTreeMap<String, u64> =
        lines.map(|(name, number)| (name.into(), number.parse().unwrap())).collect();
    let mut take = |name| own.remove(name);
    let checked = [take("wrong"), take("unknown"), take("enough")];
    assert_eq!(checked, [Some(0), Some(0), Some(1)], "{text}");
    own
}

fn interrupted() -> Option<PathBuf> {
    build("signal-interrupted", INTERRUPTED, &[])
}

/// Returns the number of calls of each function in a log.
fn logged(file: &Path) -> BTreeMap<String, u64> {
    let report = hmtt_tag(&["report", "--json"]).arg(file).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let functions = report["functions"].as_array().unwrap().iter();
    functions
        .map(|function| {
            (function["name"].as_str().unwrap().into(), function["calls"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn handlers_see_the_program_and_counts_are_exact() {
    let Some(program) = interrupted() else { return };
    for options in WAYS {
        let file = scratch("signal-interrupted.out");
        let output = run(options, &program, &["400"], &file);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{options:?}: {error}");
        let own = own_counts(&String::from_utf8_lossy(&output.stdout));
        let counted = match options[1] {
            "none" => continue,
            "count" => calls(&file),
            _ => logged(&file),
        };
        for name in COUNTED {
            assert_eq!(counted.get(name), own.get(name), "{name} {options:?}");
        }
    }
}

/// The interrupted program, which runs until its input ends.
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(words: &[&str]) -> Option<Running> {
        Some(Running::begin(&interrupted()?, words))
    }

    fn begin(program: &Path, words: &[&str]) -> Running {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        Running { child, input, output }
    }

    fn attach(&self, sink: &str, name: &str) -> Child {
        let file = scratch(name);
        let words = [
            "attach",
            "--sink",
            sink,
            "--blocks",
            "loops",
            "--overwrite",
            "-o",
            file.to_str().unwrap(),
        ];
        let pid = self.child.id().to_string();
        let mut command = hmtt_tag(&words);
        command.arg(&pid).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Attaches, and returns when a thread is in a moved loop: records are in the log. `None` if
    /// that is not permitted.
    fn attach_and_log(&self, name: &str) -> Option<Child> {
        let log = scratch(name);
        drop(std::fs::remove_file(&log));
        let mut tag = self.attach("log", name);
        let has_records = || std::fs::metadata(&log).is_ok_and(|log| log.len() > 1 << 20);
        while !has_records() {
            if tag.try_wait().unwrap().is_some() {
                let mut error = String::new();
                tag.stderr.take().unwrap().read_to_string(&mut error).unwrap();
                assert!(error.contains("not permitted"), "{error}");
                skipped(error);
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(tag)
    }

    /// Checks that the program has ended as without tags.
    fn end(self) {
        own_counts(&self.ended());
    }

    /// Ends the program and returns its output.
    fn ended(mut self) -> String {
        drop(self.input);
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{text}");
        text
    }
}

#[test]
fn tags_are_added_and_removed_while_handlers_run() {
    let Some(running) = Running::start(&[]) else { return };
    for sink in ["count", "log"].repeat(3) {
        let mut tag = running.attach(sink, "signal-come.out");
        std::thread::sleep(Duration::from_millis(500));
        send(tag.id(), Signal::SIGINT);
        let status = tag.wait().unwrap();
        let mut error = String::new();
        tag.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        if error.contains("not permitted") {
            skipped(error);
            break;
        }
        assert!(status.success(), "{status} {error}");
    }
    running.end();
}

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// Attaches and detaches while a handler runs most of the time. With `is_killed` the controller is
/// killed and another one removes the tags.
fn attach_and_detach(name: &str, flags: &[&str], is_killed: bool) {
    let Some(program) = build(name, STACKS, flags) else { return };
    let running = Running::begin(&program, &[]);
    for turn in 0..10 {
        let mut tag = running.attach("count", &format!("{name}.out"));
        std::thread::sleep(Duration::from_millis(250 + 7 * turn));
        send(tag.id(), if is_killed { Signal::SIGKILL } else { Signal::SIGINT });
        tag.wait().unwrap();
        if is_killed {
            let output = hmtt_tag(&["detach", &running.child.id().to_string()]).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            // On a loaded machine the controller may be killed before there is a tag.
            assert!(output.status.success() || error.contains("has no tags"), "{error}");
        }
    }
    assert_eq!(running.ended(), "ends\n");
}

#[test]
fn handlers_may_return_by_the_programs_own_code() {
    attach_and_detach("signal-stacks-own", &["-DOWN"], false);
}

#[test]
fn handlers_on_several_stacks_are_handled() {
    attach_and_detach("signal-stacks-left", &[], false);
    attach_and_detach("signal-stacks-killed", &[], true);
}

#[test]
fn memory_stays_while_a_handler_will_return_to_it() {
    for (name, flags) in [("signal-waits", &[][..]), ("signal-waits-own", &["-DOWN_STACK"])] {
        let Some(program) = build(name, WAITS, flags) else { return };
        let mut running = Running::begin(&program, &[]);
        let Some(mut tag) = running.attach_and_log("signal-waits.out") else { return };
        tag.kill().unwrap();
        tag.wait().unwrap();
        let pid = running.child.id();
        send(pid, Signal::SIGUSR1);
        let mut line = String::new();
        running.output.read_line(&mut line).unwrap();
        assert_eq!(line, "waits\n");
        let output = hmtt_tag(&["detach", &pid.to_string()]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("a thread may still return to it"), "{text}");
        assert_eq!(running.ended(), "ends\n");
    }
}

#[test]
fn a_signal_that_a_tag_has_blocked_arrives_in_original_code_after_the_end_of_tagging() {
    let Some(program) = build("signal-sees", SEES, &[]) else { return };
    let mut running = Running::begin(&program, &[]);
    let Some(mut tag) = running.attach_and_log("signal-sees.out") else { return };
    // Threads fill their buffers, and wait with all signals blocked.
    send(tag.id(), Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(300));
    running.input.write_all(b"s").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    send(tag.id(), Signal::SIGINT);
    send(tag.id(), Signal::SIGCONT);
    assert!(tag.wait().unwrap().success());
    assert_eq!(running.ended(), "own\n");
}

#[test]
fn programs_with_changed_signal_frames_continue_after_hmtt_tag() {
    // After the controller was killed, handlers see addresses of stubs. That is not checked.
    let Some(running) = Running::start(&["0", "unchecked"]) else { return };
    for turn in 0..6 {
        let sink = ["count", "log"][turn % 2];
        let mut tag = running.attach(sink, "signal-changed.out");
        std::thread::sleep(Duration::from_millis(300 + 37 * turn as u64));
        tag.kill().unwrap();
        tag.wait().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    running.end();
}

/// Returns `r11` and `rip` from a core file. The first note has the registers of the thread that
/// was ended.
fn registers(core: &[u8]) -> (u64, u64) {
    let long = |at: usize| u64::from_le_bytes(core[at..at + 8].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(core[at..at + 4].try_into().unwrap()) as usize;
    // ELF-64: program headers start at the offset in word 32 and have 56 bytes each; PT_NOTE is 4.
    let headers = long(32) as usize;
    let header = (headers..).step_by(56).find(|at| word(*at) == 4).unwrap();
    let note = long(header + 8) as usize;
    // NT_PRSTATUS is 1; elf_prstatus has registers at 112, in the order of user_regs_struct.
    assert_eq!(word(note + 8), 1);
    let description = note + 12 + word(note).next_multiple_of(4);
    let register = |number: usize| long(description + 112 + 8 * number);
    (register(6), register(16))
}

#[test]
fn core_files_have_the_registers_of_the_program() {
    let Some(program) = build("signal-dies", DIES, &[]) else { return };
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.trim() != "core" {
        return skipped(format!("core files go elsewhere: {}", pattern.trim()));
    }
    for options in WAYS.into_iter().step_by(2) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]);
        command.arg(env!("CARGO_BIN_EXE_hmtt")).args(["tag", "run"]).args(options);
        if options[1] != "none" {
            command.args(["-o", "out"]);
        }
        command.arg("--").arg(&program).current_dir(folder.path());
        let output = command.output().unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let is_core =
            |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with("core");
        let Some(core) = files.find(is_core) else { return skipped("no core file is written") };
        let address = String::from_utf8(output.stdout).unwrap();
        let get = u64::from_str_radix(address.trim(), 16).unwrap();
        let values = registers(&std::fs::read(core).unwrap());
        assert_eq!(values, (0x1111_1111_1111_1111, get), "{options:?}");
    }
}
