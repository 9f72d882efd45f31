//! Tests that time and memory of every reader are linear in the size of its input
//! (docs/readers.md). Each command reads its most expensive inputs in one size and in four times
//! that size.
//!
//! The kernel limits memory (`RLIMIT_DATA`) to the constant per byte that the document states. Time
//! is processor time as the kernel counts it, so that load on the machine has little influence.

mod captures;
mod elements;
mod joined;
mod logs;
mod tables;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::scratch;

/// Memory that every command may use in addition: buffers, and the stacks of its threads.
const BASE_BYTES: usize = 96 << 20;
/// Maximum ratio of the times for four times the input. A quadratic reader takes 16 times as long.
const MOST_TIMES: u32 = 9;
/// Variation of the time of short runs.
const NOISE: Duration = Duration::from_millis(300);

/// Captures without a frame of a card. `hmtt decode` and `hmtt info` read them to the end, and then
/// report an error.
const WITHOUT_FRAMES: [&str; 6] =
    ["comments", "fragments", "interfaces", "long-options", "statistics", "unnamed-interfaces"];

/// Inputs that are read to the end or to an error, and then rejected: a record with lines that are
/// too long, objects that are too deep, captures with nothing to merge.
const REFUSED: [&str; 11] = [
    "csv-one-line",
    "csv-open-quote",
    "jsonl-deep",
    "merge-cards",
    "merge-comments",
    "merge-fragments",
    "merge-interfaces",
    "merge-long-options",
    "merge-malformed",
    "merge-statistics",
    "merge-unnamed-interfaces",
];

/// Builds an input of about this many bytes.
type Input = fn(usize) -> Vec<u8>;

/// A command and an input that is expensive for it.
struct Shape {
    name: &'static str,
    /// The command. `IN` is the file, `BESIDE` the one beside it, and `OUT` another one.
    command: &'static str,
    /// File name extension of the input.
    extension: &'static str,
    /// Builds the input of about this many bytes.
    input: Input,
    /// Size of the smaller input in bytes.
    size: usize,
    /// Maximum bytes of memory per byte of input.
    memory: usize,
    /// A second file beside the input: the suffix of its name, and its content.
    beside: Option<(&'static str, Input)>,
}

fn is_refused(name: &str) -> bool {
    let has_no_frame = name.split_once('-').is_some_and(|(verb, input)| {
        ["decode", "info"].contains(&verb) && WITHOUT_FRAMES.contains(&input)
    });
    REFUSED.contains(&name) || has_no_frame
}

fn is_linear(shape: &Shape) {
    let small = run(shape, shape.size);
    let large = run(shape, shape.size * 4);
    assert!(
        large <= small * MOST_TIMES + NOISE,
        "{}: {:?} for {} bytes, {large:?} for four times that",
        shape.name,
        small,
        shape.size
    );
}

/// Returns the processor time of a command for an input of this size.
fn run(shape: &Shape, size: usize) -> Duration {
    let input = scratch(&format!("linear-{}.{}", shape.name, shape.extension));
    let output = scratch(&format!("linear-{}.out", shape.name));
    let length = write(&input, &(shape.input)(size));
    let extension = shape.beside.map_or("none", |(extension, _)| extension);
    let beside = Path::new(&format!("{}.{extension}", input.display())).to_owned();
    let length = length + shape.beside.map_or(0, |(_, input)| write(&beside, &input(size)));
    let arguments = shape.command.split(' ').map(|argument| match argument {
        "IN" => input.as_os_str(),
        "BESIDE" => beside.as_os_str(),
        "OUT" => output.as_os_str(),
        other => other.as_ref(),
    });
    let limit = (BASE_BYTES + shape.memory * length) as u64;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let (status, time) = measured(command, limit);
    for path in [input, output, beside] {
        let _ = std::fs::remove_file(path);
    }
    let code = status.code();
    assert!(
        matches!(code, Some(0 | 3)) || code == Some(1) && is_refused(shape.name),
        "{}: {size} bytes, {} MiB allowed: {code:?}, signal {:?}",
        shape.name,
        limit >> 20,
        status.signal()
    );
    time
}

fn write(path: &Path, bytes: &[u8]) -> usize {
    std::fs::write(path, bytes).unwrap();
    bytes.len()
}

/// Runs a command with a limit of its memory in bytes. Returns its status and processor time.
fn measured(mut command: Command, limit: u64) -> (ExitStatus, Duration) {
    // SAFETY: setrlimit is safe between fork and exec, and nothing else is called.
    let command = unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    };
    // The child is awaited below, to get its resource usage.
    #[expect(clippy::zombie_processes)]
    let child = command.spawn().unwrap();
    let mut status = 0;
    // SAFETY: a structure of numbers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours and has not been awaited; both pointers are to live variables.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert_eq!(waited, child.id() as i32);
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime))
}

/// Repeats a part with a counter until there are about this many bytes.
fn repeated(size: usize, mut part: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + (1 << 16));
    let mut count = 0;
    while bytes.len() < size {
        part(count, &mut bytes);
        count += 1;
    }
    bytes
}
