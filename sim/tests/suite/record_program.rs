//! Records programs: they behave as without that, and their recordings are complete up to where
//! they say.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn record(directory: &Path, options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sim"));
    command.args(["record", "-o", "x.cmd.gz"]).args(options).arg("--").args(program);
    command.current_dir(directory).stdin(Stdio::null());
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|one| one.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether the card that replays the recording sends what is in its list.
fn assert_replayed(directory: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sim"));
    command.args(["replay", "x.cmd.gz", "--truth", "x.truth.gz", "-q"]).current_dir(directory);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_program_behaves_as_without_being_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let script = "echo out; echo err >&2; read line; echo \"<$line>\"; exit 7";
    let mut command = record(directory.path(), &["-q"], &["sh", "-c", script]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    assert_eq!((&output.stdout[..], errors(&output)), (&b"out\n<>\n"[..], "err\n".to_owned()));
    assert_eq!(names(directory.path()), ["x.cmd.gz", "x.truth.gz"]);

    let killed = record(directory.path(), &["-q", "-f"], &["sh", "-c", "kill -TERM $$"]).output();
    let killed = killed.unwrap();
    assert_eq!(killed.status.signal(), Some(15), "{}", errors(&killed));
    assert_eq!(errors(&killed), "hmtt-sim: the program was ended by SIGTERM\n");
    assert_eq!(names(directory.path()), ["x.cmd.gz", "x.truth.gz"]);
}

#[test]
fn a_limited_recording_is_replayed_while_the_program_runs_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i; exit 3";
    let options = ["--limit", "20000", "--cpu-ratio", "16"];
    let output = record(directory.path(), &options, &["sh", "-c", script]).output().unwrap();
    let printed = errors(&output);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"20000\n"[..]), "{printed}");
    assert!(printed.starts_with("20000 accesses of the program in "), "{printed}");
    assert!(printed.lines().next().unwrap().ends_with(" pages, up to the limit"), "{printed}");
    assert!(!printed.contains("i1:") && printed.contains("\nl1: "), "{printed}");
    assert_replayed(directory.path());
}

#[test]
fn children_are_counted_and_not_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let output = record(directory.path(), &[], &["sh", "-c", "(exit 3); exit 0"]).output().unwrap();
    let printed = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let note = "hmtt-sim: 1 child process ran natively, and is not recorded\n";
    assert!(printed.starts_with(note), "{printed}");
}

#[test]
fn what_cannot_be_recorded_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let fails = |options: &[&str], program: &[&str], words: &str| {
        let output = record(directory.path(), options, program).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        assert!(errors(&output).contains(words), "{}", errors(&output));
    };
    fails(&[], &["/no/such/program"], "hmtt-sim: cannot run /no/such/program: ");
    fails(&[], &[], "required arguments were not provided");
    fails(&["--accesses", "x"], &["true"], "cannot be used with");
    fails(&["--cache", "i1=1K,2,64,lru", "--cache", "l1=1K,2,64,lru"], &["true"], "--cache i1: ");
    fails(&["--limit", "0"], &["true"], "invalid value '0' for '--limit");
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_program_that_needs_too_many_pages_runs_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    // 2 MiB, of which the first is reserved.
    let memory = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n[map]\n\
        column = ['p3-p11']\nbank = ['p12', 'p13']\nrow = ['p14-p20']\n";
    fs::write(directory.path().join("memory.toml"), memory).unwrap();
    let script = "x=$(printf %1000000s); x=$x$x$x; echo ${#x}";
    let options = ["--memory", "memory.toml"];
    let output = record(directory.path(), &options, &["bash", "-c", script]).output().unwrap();
    let printed = errors(&output);
    assert_eq!(output.stdout, b"3000000\n", "{printed}");
    assert_eq!(output.status.code(), Some(2), "{printed}");
    let words = "of the program: the memory is full: all 256 page frames are used";
    // The shell has a child for what it substitutes.
    let [children, error] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    assert!(children.ends_with("1 child process ran natively, and is not recorded"), "{printed}");
    assert!(error.starts_with("hmtt-sim: access ") && error.ends_with(words), "{printed}");
    assert_eq!(names(directory.path()), ["memory.toml"]);
}

/// Runs a program that ends when a file `stop` exists, sends a signal to `hmtt-sim` while it
/// records, and checks that the program goes on. Returns what `hmtt-sim` has printed and its
/// status.
fn interrupted(directory: &Path, signal: i32) -> Output {
    let script = "echo begun; while [ ! -e stop ]; do :; done; echo end > done";
    let mut command = record(directory, &[], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::try_from(signal).unwrap()).unwrap();
    let status = child.wait().unwrap();
    fs::write(directory.join("stop"), "").unwrap();
    let begin = Instant::now();
    while !directory.join("done").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the program does not go on");
        sleep(Duration::from_millis(20));
    }
    // The program had the same standard error, and has ended.
    let mut stderr = Vec::new();
    std::io::Read::read_to_end(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
    Output { status, stdout: Vec::new(), stderr }
}

#[test]
fn a_signal_completes_the_recording_and_the_program_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let output = interrupted(directory.path(), nix::libc::SIGTERM);
    let printed = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    let words =
        "hmtt-sim: warning: a signal has ended the recording; the program goes on natively\n";
    assert!(printed.starts_with(words), "{printed}");
    assert_eq!(names(directory.path()), ["done", "stop", "x.cmd.gz", "x.truth.gz"]);
}

#[test]
fn a_program_goes_on_if_the_simulator_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let output = interrupted(directory.path(), nix::libc::SIGKILL);
    assert_eq!(output.status.signal(), Some(9));
    let names = names(directory.path());
    assert!(!names.contains(&"x.cmd.gz".to_owned()), "{names:?}");
}
