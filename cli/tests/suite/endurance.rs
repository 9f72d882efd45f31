//! Interrupts `hmtt tag`, `hmtt monitor` and `hmtt trace` at random moments, and attaches them to a
//! server again and again. The programs do what they do alone.
//!
//! `HMTT_LONG_INTERRUPTIONS` and `HMTT_LONG_ATTACHMENTS` are numbers of times for each command, and
//! `HMTT_LONG_SEED` is the first seed. A failure names the seed of its case.

pub mod server;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hmtt_test_support::random::Xorshift;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tag::build;
use crate::{from_environment, hmtt, scratch};

const BUSY: &str = include_str!("monitor/busy.c");
const SPAWNS: &str = include_str!("monitor/spawns.c");
const SURVIVES: &str = include_str!("monitor/survives.c");
const TIMERS: &str = include_str!("monitor/timers.c");
/// The commands, with options that change how they follow a program.
const COMMANDS: [[&[&str]; 2]; 3] = [
    [&["tag"], &["tag", "--follow"]],
    [&["monitor"], &["monitor", "--follow"]],
    [&["trace"], &["trace", "--sample", "20ms/20ms"]],
];
const SIGNALS: [Signal; 3] = [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT];
/// Interruptions of each command, unless the environment has another number.
const INTERRUPTIONS: u64 = 20;
/// Longest time in which a program ends. Alone it takes less than a second.
const LIMIT: Duration = Duration::from_secs(120);

/// A program, its arguments, and what it does alone.
struct Plain {
    command: Vec<String>,
    status: ExitStatus,
    output: Vec<u8>,
    time: Duration,
}

impl Plain {
    fn new(words: &[&str]) -> Self {
        let begin = Instant::now();
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        Plain {
            command: words.iter().map(|word| String::from(*word)).collect(),
            status: output.status,
            output: output.stdout,
            time: begin.elapsed(),
        }
    }
}

/// The programs: with timers, threads and children; with timers alone; with threads, signals and
/// children; with vfork(2), posix_spawn(3) and exec; one whose first thread ends; and one that
/// replaces itself.
fn programs() -> Option<Vec<Plain>> {
    let built = |name: &str, source| build(&format!("monitor-{name}"), source, &[]);
    let paths = [
        built("busy", BUSY)?,
        built("timers", TIMERS)?,
        built("spawns", SPAWNS)?,
        built("survives", SURVIVES)?,
    ];
    let [busy, timers, spawns, survives] = paths.each_ref().map(|path| path.to_str().unwrap());
    let replaces = format!("for i in 1 2 3; do {spawns} 5; done; exec {busy} signals 5");
    Some(vec![
        Plain::new(&[timers, "10", "100"]),
        Plain::new(&[timers, "10", "100", "alone"]),
        Plain::new(&[busy, "signals", "15"]),
        Plain::new(&[spawns, "60"]),
        Plain::new(&[survives, "20000000"]),
        Plain::new(&["sh", "-c", &replaces]),
    ])
}

/// A program, or a command that runs one, whose standard output goes to a file.
struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Starts a command in a process group of its own, so that all its processes can be ended.
    fn start(mut command: Command, name: &str) -> Self {
        let output = scratch(name);
        let file = std::fs::File::create(&output).unwrap();
        command.stdin(Stdio::null()).stdout(file).process_group(0);
        Running { child: command.spawn().unwrap(), output }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits until all processes of the group have ended. `None`: they have not.
    fn end(&mut self) -> Option<ExitStatus> {
        let (begin, mut status) = (Instant::now(), None);
        while begin.elapsed() < LIMIT {
            status = status.or(self.child.try_wait().unwrap());
            if status.is_some() && !is_group_running(self.pid()) {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = nix::sys::signal::killpg(self.pid(), Signal::SIGKILL);
        None
    }
}

/// Whether a process of a process group has not ended. Processes that nobody waits for, because
/// their parent was killed, have ended.
fn is_group_running(group: Pid) -> bool {
    let is_running = |process: PathBuf| {
        let stat = std::fs::read_to_string(process.join("stat")).ok()?;
        // The name in parentheses may contain any character (proc(5), `stat`).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, its_group) = (fields.next()?, fields.nth(1)?);
        // If only the first thread has ended, others are left.
        let threads = || std::fs::read_dir(process.join("task")).map_or(0, Iterator::count);
        let has_ended = ["Z", "X"].contains(&state) && threads() <= 1;
        Some(its_group == group.to_string() && !has_ended)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| is_running(entry.path())).any(|is_running| is_running)
}

/// Waits for a command that was told to end. Returns its status and its errors.
fn end_of(mut command: Child, case: &str) -> (ExitStatus, String) {
    let begin = Instant::now();
    while command.try_wait().unwrap().is_none() {
        if begin.elapsed() > LIMIT {
            command.kill().unwrap();
            panic!("{case}: it has not ended");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = command.wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn command(words: &[&str], subcommand: &str, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.arg(words[0]).arg(subcommand).args(&words[1..]).args(["--overwrite", "-o"]);
    command.arg(scratch(name)).stderr(Stdio::piped());
    command
}

/// Runs a program under a command, interrupts it after some time, and checks what the program has
/// written.
fn interrupt_run(words: &[&str], plain: &Plain, signal: Signal, after: Duration, case: &str) {
    let name = format!("endured-run-{}", words[0]);
    let mut command = command(words, "run", &name);
    command.arg("--").args(&plain.command).stderr(Stdio::null());
    let mut running = Running::start(command, &format!("{name}-output"));
    std::thread::sleep(after);
    let has_started = has_started(running.pid());
    let _ = kill(running.pid(), signal);
    assert!(running.end().is_some(), "{case}: the program has not ended");
    let written = std::fs::read(&running.output).unwrap();
    // A command that ends before it starts the program starts none.
    if has_started || !written.is_empty() {
        assert!(written == plain.output, "{case}: {}", String::from_utf8_lossy(&written));
    }
}

/// Whether a command has ended, or a child of it executes another program.
fn has_started(command: Pid) -> bool {
    let file = |process: &str| std::fs::read_link(format!("/proc/{process}/exe")).ok();
    let Some(own) = file(&command.to_string()) else { return true };
    let children = std::fs::read_to_string(format!("/proc/{command}/task/{command}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(file).any(|program| program != own)
}

/// Attaches a command to a program that runs, interrupts it after some time, and checks what the
/// program does.
fn interrupt_attached(
    words: &[&str],
    plain: &Plain,
    signal: Signal,
    times: [Duration; 2],
    case: &str,
) {
    let name = format!("endured-attached-{}", words[0]);
    let mut command_line = Command::new(&plain.command[0]);
    command_line.args(&plain.command[1..]);
    let mut running = Running::start(command_line, &format!("{name}-output"));
    std::thread::sleep(times[0]);
    let pid = running.pid().to_string();
    let attached = command(words, "attach", &name).arg(&pid).spawn().unwrap();
    std::thread::sleep(times[1]);
    let _ = kill(Pid::from_raw(attached.id().cast_signed()), signal);
    end_of(attached, case);
    if signal == Signal::SIGKILL {
        // What is left is removed, if the program still runs.
        hmtt(&[words[0], "detach", &pid]);
        assert_eq!(memory_files(&pid), [""; 0], "{case}");
    }
    let Some(status) = running.end() else { panic!("{case}: the program has not ended") };
    assert_eq!(status, plain.status, "{case}");
    let written = std::fs::read(&running.output).unwrap();
    assert!(written == plain.output, "{case}: {}", String::from_utf8_lossy(&written));
}

/// Descriptors of a process that a command has opened in it.
fn memory_files(pid: &str) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let names = links.map(|link| link.to_string_lossy().into_owned());
    names.filter(|name| name.contains("hmtt-tag")).collect()
}

/// Interrupts a command, with each program, signal and way to follow it in turn.
fn is_interrupted(commands: [&[&str]; 2]) {
    let Some(programs) = programs() else { return };
    let first = from_environment("HMTT_LONG_SEED").unwrap_or(1);
    let times = from_environment("HMTT_LONG_INTERRUPTIONS").unwrap_or(INTERRUPTIONS);
    for seed in first..first + times {
        // Near seeds have near first numbers.
        let mut random = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let words = commands[random.below(2)];
        let signal = SIGNALS[random.below(3)];
        // If a command is killed while a thread with deferred signals starts another one, or a
        // process, they stay blocked (docs/monitor.md, *Limits*): not with the first program.
        let programs = if signal == Signal::SIGKILL { &programs[1..] } else { &programs[..] };
        let plain = &programs[random.below(programs.len())];
        let mut moment = || plain.time * random.below(1000) as u32 / 800;
        let moments = [moment(), moment()];
        let is_run = seed.is_multiple_of(2);
        let case =
            format!("seed {seed}: {words:?} of {:?}, {signal} after {moments:?}", plain.command);
        if is_run {
            interrupt_run(words, plain, signal, moments[0], &case);
        } else {
            interrupt_attached(words, plain, signal, moments, &case);
        }
    }
}

#[test]
fn programs_are_as_alone_whenever_tagging_is_interrupted() {
    is_interrupted(COMMANDS[0]);
}

#[test]
fn programs_are_as_alone_whenever_monitoring_is_interrupted() {
    is_interrupted(COMMANDS[1]);
}

#[test]
fn programs_are_as_alone_whenever_tracing_is_interrupted() {
    is_interrupted(COMMANDS[2]);
}
