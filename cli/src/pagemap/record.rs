//! `hmtt pagemap record`: records which physical pages processes have, in one snapshot or
//! repeatedly. Sends marks to a card on request.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hmtt_files::page_map::Ending;
use hmtt_probe::pages::{Figures, PagesError, Recorder, all_processes, shows_frames};
use hmtt_probe::ptrace::{block_signals, wait_for_signal};
use nix::unistd::Pid;

use super::marks::{MarkOptions, Marks};
use super::output::{Unnamed, open};
use crate::accesses::figures::{counted, seconds};
use crate::tag::values::duration;

/// Record which frames of physical memory the pages of processes have
///
/// Needs the capability CAP_SYS_ADMIN, for which the kernel shows the numbers of frames, and
/// CAP_SYS_PTRACE for processes of other users.
#[derive(clap::Args)]
#[command(
    after_help = "Without --every, there is one snapshot. With it, recording ends after --for, with Ctrl-C, or when all \
                  processes have ended. A page that moves between two snapshots is noticed in the second one."
)]
pub struct Arguments {
    /// Record this process; may be given several times
    #[arg(short, long, value_name = "PID", required_unless_present = "all", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// Record all processes
    #[arg(long, conflicts_with = "pid")]
    all: bool,
    /// Take a snapshot again after this time, which begins with the snapshot before: 10ms, 1s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration, requires = "every")]
    end: Option<Duration>,
    /// The map
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    /// Overwrite the map
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    marks: MarkOptions,
}

/// Runs the command. Returns whether processes could not be read.
pub fn run(arguments: &Arguments) -> Result<bool> {
    ensure!(shows_frames().context("/proc/self/pagemap")?, PagesError::NoFrames);
    let (file, mut unnamed) = open(&arguments.output, arguments.overwrite, "--overwrite")?;
    let mut marks = Marks::new(&arguments.marks)?;
    let mut recorder = Recorder::new(BufWriter::new(file))?;
    let ending = record(arguments, &mut recorder, &mut unnamed, &mut marks);
    let figures = recorder.figures();
    recorder.finish(*ending.as_ref().unwrap_or(&Ending::Requested))?;
    ending?;
    marks.finish(&arguments.marks)?;
    report(&figures);
    Ok(figures.most_unread_processes > 0)
}

/// Takes snapshots until the recording ends. Returns the reason for the end.
fn record(
    arguments: &Arguments,
    recorder: &mut Recorder<BufWriter<File>>,
    unnamed: &mut Unnamed,
    marks: &mut Marks,
) -> Result<Ending> {
    let signals = block_signals()?;
    let chosen: Vec<Pid> = arguments.pid.iter().map(|pid| Pid::from_raw(*pid)).collect();
    let begin = Instant::now();
    loop {
        let round = Instant::now();
        let all_pids = if arguments.all { all_processes().context("/proc")? } else { Vec::new() };
        let pids = if arguments.all { &all_pids } else { &chosen };
        let processes = marks.with_next(|marks| recorder.snapshot(pids, !arguments.all, marks))?;
        // The file gets its name after the first snapshot, because a map without snapshots is of no
        // use.
        unnamed.name()?;
        let Some(every) = arguments.every else { return Ok(Ending::Requested) };
        if processes == 0 {
            return Ok(Ending::Processes);
        }
        let left = arguments.end.map(|end| end.saturating_sub(begin.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Ending::Time);
        }
        let wait = every.saturating_sub(round.elapsed()).min(left.unwrap_or(Duration::MAX));
        if wait_for_signal(&signals, wait)?.is_some() {
            return Ok(Ending::Requested);
        }
    }
}

/// Prints the counts of the recording, and how stale a page may be.
fn report(figures: &Figures) {
    let ns = |ns: u64| seconds(ns as f64 * 1e-9);
    let Figures { snapshots, processes, most_unread_processes, present_pages, .. } = *figures;
    report!(
        "{}; in the last one {} with {}",
        counted(snapshots, "snapshot"),
        counted(processes, "process"),
        counted(present_pages, "page")
    );
    report!("longest reading of a process: {}", ns(figures.longest_scan_ns));
    if figures.longest_stale_ns > 0 {
        report!("a page may have moved unnoticed for at most {}", ns(figures.longest_stale_ns));
    }
    if most_unread_processes > 0 {
        report!(
            "in a snapshot, {} could not be read; CAP_SYS_PTRACE is needed for those of other users",
            counted(most_unread_processes, "process")
        );
    }
}
