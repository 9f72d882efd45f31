//! Runs a program that damages its own state at random, with each kind of tagging: `hmtt tag` ends,
//! states why, stays small, and changes no other process.
//!
//! `HMTT_FUZZ_SECONDS` sets the duration and `HMTT_FUZZ_SEED` the first seed. A failure names its
//! seed.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tag::{build, hmtt_tag};
use crate::{from_environment, scratch};

/// Number of seeds if no duration is given.
const SEEDS: u64 = 12;
/// Time limit of a run. The program ends after 3 seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum memory of a controller in KiB. Shared memory that the program fills counts as well.
const MOST_KIB: i64 = 2 << 20;
/// Exit status after a panic.
const PANICKED: i32 = 101;

/// Kinds of tagging.
const WAYS: [&[&str]; 5] = [
    &["--sink", "count"],
    &["--sink", "count", "-f", "--budget", "50%"],
    &["--sink", "log", "--buffer-kb", "8", "--buffers", "2"],
    &["--sink", "log", "--full", "drop", "--no-time", "-f"],
    &["--sink", "none"],
];

/// Waits for a child that ends by itself. Returns its status as `wait4` does, and its maximum
/// memory in KiB.
fn wait(child: &Child, setting: &str) -> (i32, i64) {
    let (start, pid) = (Instant::now(), child.id() as i32);
    loop {
        let mut status = 0;
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes to two variables that outlive the call.
        let ended = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if ended == pid {
            return (status, usage.ru_maxrss);
        }
        assert!(start.elapsed() < PATIENCE, "{setting}: process {pid} hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs or attaches to the program once.
#[expect(clippy::zombie_processes, reason = "`wait4` waits, and returns the memory that was used")]
fn try_once(program: &Path, seed: u64) {
    let way = WAYS[(seed % WAYS.len() as u64) as usize];
    let log = scratch(&format!("tag-hostile-random-{}.tags", seed % 2));
    let (number, mildness) =
        (seed.to_string(), if seed.is_multiple_of(3) { "mild" } else { "wild" });
    let words = [program.to_str().unwrap(), &number, mildness];
    let is_run = !seed.is_multiple_of(4);
    let mut command = hmtt_tag(&[if is_run { "run" } else { "attach" }]);
    command.args(way).arg("--force").stdin(Stdio::null()).stdout(Stdio::null());
    if way[1] == "log" {
        command.arg("-o").arg(&log);
    }
    let mut beside = None;
    if is_run {
        command.arg("--").args(words);
    } else {
        let child = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).spawn().unwrap();
        command.arg(child.id().to_string());
        beside = Some(child);
    }
    let mut controller = command.stderr(Stdio::piped()).spawn().unwrap();
    let setting =
        format!("seed {seed}: {way:?} of {words:?}, {}", if is_run { "run" } else { "attach" });
    let mut errors = controller.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        errors.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let (status, most) = wait(&controller, &setting);
    if let Some(child) = beside {
        wait(&child, &setting);
    }
    let text = reader.join().unwrap();
    for words in ["panicked", "memory allocation of", "overflowed its stack", "fatal runtime error"]
    {
        assert!(!text.contains(words), "{setting}: {text}");
    }
    // hmtt ended by the program's signal, and reported it.
    let follows = text.contains("the program was ended by");
    assert!(follows || libc::WIFEXITED(status), "{setting}: status {status:x}: {text}");
    assert!(most < MOST_KIB, "{setting}: {most} KiB");
    if libc::WIFEXITED(status) {
        let code = libc::WEXITSTATUS(status);
        assert!(
            code != PANICKED && (code != 1 || text.contains("hmtt: ")),
            "{setting}: {code}: {text}"
        );
    }
}

#[test]
fn a_hostile_program_harms_only_itself() {
    let source = include_str!("tracee.c");
    let Some(program) = build("tag-hostile-tracee", source, &["-mfsgsbase"]) else { return };
    let seconds = from_environment("HMTT_FUZZ_SECONDS").map(Duration::from_secs);
    let first = from_environment("HMTT_FUZZ_SEED").unwrap_or(1);
    let start = Instant::now();
    let mut tried = 0;
    while seconds.map_or(tried < SEEDS, |seconds| start.elapsed() < seconds) {
        try_once(&program, first + tried);
        tried += 1;
    }
    eprintln!("seeds {first} to {}", first + tried - 1);
}
