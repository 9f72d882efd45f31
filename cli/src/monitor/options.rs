//! Options of `hmtt monitor run` and `attach`: what is recorded, and where the counts are written.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use hmtt_format::profile::Profile;
use hmtt_probe::control::TagError;
use hmtt_probe::ptrace;
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{Options, Outcome, Progress};
use hmtt_translator::monitor::hot::Thresholds;
use hmtt_translator::monitor::intervals::Intervals;
use hmtt_translator::monitor::models::ModelOptions;
use hmtt_translator::monitor::models::icache::Geometry;
use hmtt_translator::monitor::tally::Recording;

use super::report;
use crate::tag::files::{Created, NewFiles};
use crate::tag::options::block_signals;

#[derive(clap::Args)]
pub struct MonitorOptions {
    /// Write the counts as JSON to this file, for hmtt monitor report, instead of a table to standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file; without this option it is an error
    #[arg(long)]
    overwrite: bool,
    /// What a thread does when its ring is full
    #[arg(long, value_enum, default_value_t = Full::Wait)]
    full: Full,
    /// Count blocks only, not what follows each of them; this is faster
    #[arg(long)]
    counts_only: bool,
    /// Do not build superblocks of hot paths, whose blocks write one number together
    #[arg(long)]
    no_superblocks: bool,
    /// Build a superblock from a block after this many executions
    #[arg(long, value_name = "TIMES", default_value_t = Thresholds::default().block, conflicts_with_all = ["no_superblocks", "counts_only"])]
    hot_block: u64,
    /// Build a superblock from the target of an indirect transfer after this many of them
    #[arg(long, value_name = "TIMES", default_value_t = Thresholds::default().edge, conflicts_with_all = ["no_superblocks", "counts_only"])]
    hot_edge: u64,
    /// Translate only and record nothing, which shows the cost of the translation itself
    #[arg(long, conflicts_with_all = ["output", "counts_only", "full", "progress", "predictors", "icache", "hot_block", "hot_edge"])]
    translate_only: bool,
    /// Print a line to standard error each second: blocks per second, how full the rings are, and the hottest function
    #[arg(long)]
    progress: bool,
    /// Model branch predictors, a bimodal one and one after TAGE, and count their mispredictions
    #[arg(long)]
    predictors: bool,
    /// Model an instruction cache, and count its misses: size, lines of a set, and bytes of a line
    #[arg(long, value_name = "SIZE,WAYS,LINE", value_parser = geometry)]
    icache: Option<Geometry>,
    /// Count the first thread's instructions in each block for intervals of this many instructions, and write these
    /// vectors to the output file's name with .bb appended, as SimPoint reads them
    #[arg(long, value_name = "INTERVAL", requires = "output", value_parser = clap::value_parser!(u64).range(1000..))]
    bbv: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Full {
    /// Wait until the monitor has read a part of it
    Wait,
    /// Continue, and count the dropped block numbers
    Drop,
}

/// What is made before a program is followed.
pub struct Prepared {
    /// How it is followed.
    pub options: Options,
    created: Option<Created>,
    /// File of basic-block vectors.
    vectors: Option<Created>,
    new_files: [NewFiles; 2],
    prints: bool,
}

/// How writing the counts went.
pub struct Finished {
    /// Whether the file could not be written. The error is printed.
    pub has_failed: bool,
    /// Whether something was lost.
    pub is_lost: bool,
}

impl MonitorOptions {
    /// Blocks signals and creates the output file, before any other thread starts.
    pub fn prepare(&self) -> Result<Prepared> {
        let signals = block_signals()?;
        ptrace::ignore_file_size_signal();
        let create = |path: &PathBuf| Created::new(path, self.overwrite);
        let created = self.output.as_ref().map(create).transpose()?;
        let new_files = new_file(created.as_ref());
        let vectors = match (&self.output, self.bbv) {
            (Some(path), Some(_)) => Some(create(&beside(path))?),
            _ => None,
        };
        let new_files = [new_files, new_file(vectors.as_ref())];
        let models = ModelOptions { predictors: self.predictors, icache: self.icache };
        let edges = !self.counts_only;
        let thresholds = Thresholds { block: self.hot_block, edge: self.hot_edge };
        let recording = Recording {
            edges,
            models,
            superblocks: Some(thresholds).filter(|_| edges && !self.no_superblocks),
            interval: self.bbv,
            ..Recording::default()
        };
        let instrument = if self.translate_only { Instrument::None } else { Instrument::Ring };
        let drops = self.full == Full::Drop;
        let progress = self.progress.then_some(print_progress as fn(&Progress));
        let options = Options { instrument, drops, recording, signals, progress };
        Ok(Prepared { options, created, vectors, new_files, prints: !self.translate_only })
    }
}

/// Prints a line of progress.
fn print_progress(progress: &Progress) {
    let Progress { blocks_per_second, queue_fill, hottest } = progress;
    let rates = format!(
        "{:.1} M blocks/s, rings at most {:.0} % full",
        blocks_per_second / 1e6,
        100.0 * queue_fill
    );
    match hottest {
        Some((function, part)) => {
            let function = hmtt_format::escape::message(function);
            report!("hmtt: {rates}, hottest function {function} ({:.0} %)", 100.0 * part);
        }
        None => report!("hmtt: {rates}"),
    }
}

/// A new file, which is removed again if following the program fails.
fn new_file(created: Option<&Created>) -> NewFiles {
    NewFiles::new(created.into_iter().filter_map(Created::removable).collect())
}

/// The path with `.bb` appended.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bb");
    name.into()
}

/// Parses the geometry of a cache, such as `32K,8,64`.
fn geometry(text: &str) -> Result<Geometry, String> {
    let number = |text: &str| -> Option<u64> {
        let (digits, unit) = match text.trim().strip_suffix(['K', 'k']) {
            Some(digits) => (digits, 1024),
            None => (text.trim(), 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    };
    let numbers: Option<Vec<u64>> = text.split(',').map(number).collect();
    let found = match numbers.as_deref() {
        Some([size, ways, line]) => Geometry::new(*size, *ways, *line),
        _ => return Err("give three numbers, such as 32K,8,64".into()),
    };
    found.ok_or_else(|| "lines and sets must be powers of two, at most 64M and 64 ways".into())
}

/// Writes basic-block vectors, and warns of those for which there was no space.
fn write_vectors(intervals: &Intervals, file: &Created) -> Result<(), TagError> {
    if intervals.dropped > 0 {
        report!("hmtt: warning: {} intervals were not kept", intervals.dropped);
    }
    file.write(&intervals.text)
}

impl Prepared {
    /// Writes or prints the counts, and warns of losses.
    pub fn finish(self, outcome: Outcome) -> Finished {
        let Prepared { created, vectors, new_files, prints, .. } = self;
        new_files.into_iter().for_each(NewFiles::keep);
        let Outcome { mut profile, ending, left } = outcome;
        let intervals = profile.intervals.take();
        if let Some(why) = left {
            report!(
                "hmtt: warning: the program was followed only until {why}; it goes on natively"
            );
        }
        let profile: Profile = profile.to_file(ending, left);
        let written = match created {
            Some(file) => file.write(profile.to_json()),
            None => {
                if prints {
                    report!("{}", report::table(&profile, report::ROWS).trim_end());
                }
                Ok(())
            }
        };
        let written = written.and_then(|()| match (&intervals, &vectors) {
            (Some(intervals), Some(file)) => write_vectors(intervals, file),
            _ => Ok(()),
        });
        if let Err(error) = &written {
            report!("hmtt: {}", hmtt_format::escape::message(&format!("{error:#}")));
        }
        report::warn(&profile);
        Finished { has_failed: written.is_err(), is_lost: !profile.is_complete() }
    }
}
