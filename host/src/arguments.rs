//! Defines the command line of `hmtt-recv`. The parser, the help text, the shell completions and
//! the man page are all derived from it.

mod interfaces;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

pub use interfaces::Interfaces;

use crate::capture::WhenDown;
use crate::online::metrics::parse_address;
use crate::receive::{Condition, FilePlan, Limits, Rotation, descriptor};

/// Capture the frames of HMTT cards and report exactly what was lost
#[derive(Debug, Parser)]
#[command(
    name = "hmtt-recv",
    version,
    after_help = "Conditions: duration:SECONDS, filesize:SIZE (thousands of bytes, or 500M, 2GiB), files:N, \
                  packets:N.\n\
                  Signals: the first SIGINT, SIGTERM or SIGHUP finishes the capture, the second aborts it; SIGUSR1 \
                  prints what was received so far.\n\
                  Exit codes: 0 nothing lost, 1 error, 2 wrong usage, 3 finished, but something was lost."
)]
pub struct Arguments {
    /// Where the cards are connected
    #[command(flatten)]
    pub interfaces: Interfaces,
    /// List the network interfaces and exit
    #[arg(short = 'D', long)]
    pub list_interfaces: bool,
    /// Write the frames to this pcapng file or named pipe; - is standard output
    #[arg(short, long, value_name = "FILE.pcapng")]
    pub write: Option<PathBuf>,
    /// Continue in another numbered file when a condition is met; with files:N only the last N are
    /// kept
    #[arg(short = 'b', long = "ring-buffer", value_name = "CONDITION", requires = "write")]
    pub rotation: Vec<Condition>,
    /// Compress each file with zstd; FILE gets .zst appended
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        requires = "write",
        value_parser = clap::value_parser!(i32).range(1..=19)
    )]
    pub zstd: Option<i32>,
    /// Stop when a condition is met
    #[arg(short, long, value_name = "CONDITION")]
    pub autostop: Vec<Condition>,
    /// Stop after this many frames
    #[arg(short, long, value_name = "FRAMES", value_parser = frames)]
    pub count: Option<u64>,
    /// Stop when the cards report that their captures ended
    #[arg(long)]
    pub until_end: bool,
    /// Stop capturing an interface that goes down, instead of waiting until it is up again
    #[arg(long)]
    pub stop_when_down: bool,
    /// Replace FILE if it exists, unless another capture is writing it
    #[arg(short, long)]
    pub force: bool,
    /// Permissions of the files, in octal, before the umask is applied
    #[arg(long, value_name = "OCTAL", default_value = "600", requires = "write", value_parser = mode)]
    pub mode: u32,
    /// Once sockets are open, become this user (a name or a number) and create the files as that
    /// user
    #[arg(short = 'Z', long, value_name = "USER")]
    pub relinquish_privileges: Option<String>,
    /// Size of the kernel's ring for each interface in MiB; 1 s at line rate is 120
    #[arg(short = 'B', long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=2048))]
    pub ring_mb: u32,
    /// Largest amount of memory for frames that wait for a slow disk, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub queue_mb: u32,
    /// Largest share of a processor for the online statistics; frames beyond it are counted as
    /// skipped
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub statistics_cpu: u32,
    /// Capture through pnet instead of the ring: portable, but slower, and kernel drops are unknown
    #[arg(long)]
    pub fallback: bool,
    /// Print one JSON object a second, and the summary as the last, on standard output
    #[arg(long)]
    pub json: bool,
    /// Show the capture on the whole terminal; q stops the capture
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub tui: bool,
    /// Serve Prometheus metrics at this loopback address, such as 127.0.0.1:9091
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub metrics: Option<SocketAddr>,
    /// Print nothing until the end, unless an interface fails
    #[arg(short, long)]
    pub quiet: bool,
}

impl Arguments {
    /// Interfaces to capture from, in the order of the command line.
    pub fn interfaces(&self) -> Vec<String> {
        self.interfaces.0.clone()
    }

    /// Conditions under which the capture stops without a signal (`-a`, `-c`, `--until-end`).
    pub fn limits(&self) -> Limits {
        let mut limits =
            Limits { frames: self.count, until_end: self.until_end, ..Limits::default() };
        for condition in &self.autostop {
            match *condition {
                Condition::Duration(duration) => limits.duration = Some(duration),
                Condition::FileSize(bytes) => limits.bytes = Some(bytes),
                Condition::Files(files) => limits.files = Some(files),
                Condition::Packets(packets) => limits.frames = Some(packets),
            }
        }
        limits
    }

    /// What to do when an interface goes down.
    pub fn when_down(&self) -> WhenDown {
        if self.stop_when_down { WhenDown::Fail } else { WhenDown::Wait }
    }

    /// Files that the frames are written to; `None` without `-w`.
    pub fn files(&self) -> Option<FilePlan> {
        let mut rotation = Rotation::default();
        for condition in &self.rotation {
            match *condition {
                Condition::Duration(duration) => rotation.duration = Some(duration),
                Condition::FileSize(bytes) => rotation.bytes = Some(bytes),
                Condition::Files(files) => rotation.files = usize::try_from(files).ok(),
                Condition::Packets(packets) => rotation.packets = Some(packets),
            }
        }
        Some(FilePlan {
            path: self.write.clone()?,
            overwrite: self.force,
            rotation: (!self.rotation.is_empty()).then_some(rotation),
            zstd: self.zstd,
            mode: self.mode,
        })
    }

    /// Makes the checks that the parser cannot make: options that need other options, and
    /// interfaces that are named twice.
    ///
    /// # Errors
    /// Usage errors, which clap prints.
    pub fn check(&self) -> Result<(), clap::Error> {
        let wrong = |message: &str| {
            let kind = clap::error::ErrorKind::ArgumentConflict;
            Err(<Self as clap::CommandFactory>::command().error(kind, message))
        };
        let rotates = self.rotation.iter().any(|one| !matches!(one, Condition::Files(_)));
        if !self.rotation.is_empty() && !rotates {
            return wrong("-b files:N also needs -b with duration:, filesize: or packets:");
        }
        if self.limits().files.is_some() && !rotates {
            return wrong("-a files:N needs -b");
        }
        if self.limits().bytes.is_some() && self.write.is_none() {
            return wrong("-a filesize:SIZE needs -w");
        }
        let is_stdout = self.write.as_deref().and_then(descriptor) == Some(1);
        if is_stdout && (rotates || self.json || self.tui) {
            return wrong("-w - leaves standard output to the capture: no -b, --json or --tui");
        }
        let mut names = self.interfaces();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong(&format!("interface {} is named twice", pair[0]));
        }
        Ok(())
    }
}

/// Parses octal permissions; the owner must be able to read and write the file.
fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o777 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => {
            Err("expected octal permissions from 600 to 777 that let the owner read and write"
                .into())
        }
    }
}

/// Parses a number of frames above 0: a capture of 0 frames would keep nothing.
fn frames(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("a capture of 0 frames keeps nothing; the number must be above 0".into()),
        Ok(frames) => Ok(frames),
        Err(error) => Err(format!("expected a number of frames: {error}")),
    }
}
