//! Defines options of `hmtt monitor run` and `attach`: which events are recorded, and where the
//! counts are written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use hmtt_probe::ptrace;
use hmtt_probe::selection::{Effect, Selection};
use hmtt_translator::block_lists::BlockLists;
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{MonitorCpu, Options, Progress, check_cpu};
use hmtt_translator::monitor::hot::Thresholds;
use hmtt_translator::monitor::models::ModelOptions;
use hmtt_translator::monitor::models::icache::Geometry;
use hmtt_translator::monitor::tally::Recording;

use super::outputs::{Files, Outputs};
use super::perf_maps::PerfMaps;
use crate::tag::options::block_signals;
use crate::tag::warnings::shown;

#[derive(clap::Args)]
pub struct MonitorOptions {
    /// Write the counts as JSON to this file, for hmtt monitor report, instead of a table to
    /// standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file; without this option it is an error
    #[arg(long)]
    overwrite: bool,
    /// Follow children and the programs that processes execute; each has an output of its own
    #[arg(short, long)]
    follow: bool,
    /// Write functions only that a rule selects: a name, a glob, regex=PATTERN, size>=BYTES,
    /// size<BYTES, list=FILE, source=FILE, or library=FILE[/RULE]
    #[arg(short, long, value_name = "RULE")]
    include: Vec<String>,
    /// Write no functions that a rule matches; rules as for --include
    #[arg(short = 'x', long, value_name = "RULE")]
    exclude: Vec<String>,
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
    #[arg(long, conflicts_with_all = ["include", "exclude", "output", "counts_only", "full", "progress", "predictors", "icache", "cpu", "hot_block", "hot_edge"])]
    translate_only: bool,
    /// Run monitor threads on this CPU; by default, that of a process that is followed alone has a
    /// core of its own, as far as there is one
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    /// Keep lists of the executed blocks of each file in this folder, by which the next run starts
    /// faster; hmtt/blocks in the user's cache folder (XDG_CACHE_HOME) by default
    #[arg(long, value_name = "FOLDER")]
    block_lists: Option<PathBuf>,
    /// Neither use nor keep such lists
    #[arg(long, conflicts_with = "block_lists")]
    no_block_lists: bool,
    /// Write symbols of the code cache to /tmp/perf-PID.map, where perf(1) finds them
    #[arg(long)]
    perf_map: bool,
    /// Print a line to standard error each second: blocks per second, how full the rings are, and
    /// the hottest function
    #[arg(long)]
    progress: bool,
    /// Model branch predictors, a bimodal one and one after TAGE, and count their mispredictions
    #[arg(long)]
    predictors: bool,
    /// Model an instruction cache, and count its misses: size, lines of a set, and bytes of a line
    #[arg(long, value_name = "SIZE,WAYS,LINE", value_parser = geometry)]
    icache: Option<Geometry>,
    /// Count the first thread's instructions in each block for intervals of this many instructions,
    /// and write these vectors to the output file's name with .bb appended, as SimPoint reads them
    #[arg(long, value_name = "INTERVAL", requires = "output", value_parser = clap::value_parser!(u64).range(1000..))]
    bbv: Option<u64>,
}

/// What a thread does when its ring is full.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Full {
    /// Wait until the monitor has read a part of it
    Wait,
    /// Continue, and count what was dropped
    Drop,
}

/// Parses rules that select functions; `None` without rules, which selects all functions.
pub fn selected(include: &[String], exclude: &[String]) -> Result<Option<Selection>> {
    let include = include.iter().map(|rule| (Effect::Include, rule.as_str()));
    let exclude = exclude.iter().map(|rule| (Effect::Exclude, rule.as_str()));
    let rules: Vec<_> = include.chain(exclude).collect();
    Ok(if rules.is_empty() { None } else { Some(Selection::parse(rules)?) })
}

/// Settings and outputs that are prepared before a program is followed.
pub struct Prepared {
    /// Options of the monitor.
    pub options: Options,
    /// Open outputs.
    pub outputs: Outputs,
}

impl MonitorOptions {
    /// Opens the lists of executed blocks. If the user names no folder and the default folder
    /// cannot be opened, there are no lists.
    fn block_lists(&self) -> Result<Option<BlockLists>> {
        if self.no_block_lists {
            return Ok(None);
        }
        match &self.block_lists {
            Some(folder) => BlockLists::open(folder)
                .map(Some)
                .with_context(|| format!("cannot keep lists of blocks in {}", shown(folder))),
            None => {
                Ok(default_folder()
                    .and_then(|(home, path)| BlockLists::open_below(&home, &path).ok()))
            }
        }
    }

    fn monitor_cpu(&self) -> Result<MonitorCpu> {
        match self.cpu {
            Some(cpu) => {
                check_cpu(cpu).with_context(|| format!("cannot run on CPU {cpu}"))?;
                Ok(MonitorCpu::Fixed(cpu))
            }
            // Several processes have several monitors, so they need several CPUs.
            None if self.follow || self.translate_only => Ok(MonitorCpu::Any),
            None => Ok(MonitorCpu::Chosen),
        }
    }

    /// Blocks signals and creates the output file. This must happen before a second thread starts.
    /// `is_attached`: whether the process runs already.
    pub fn prepare(&self, is_attached: bool) -> Result<Prepared> {
        let signals = block_signals()?;
        ptrace::ignore_file_size_signal();
        let files = Files {
            path: self.output.clone(),
            overwrite: self.overwrite,
            has_vectors: self.bbv.is_some(),
            prints: !self.translate_only,
            selection: selected(&self.include, &self.exclude)?,
        };
        let cpu = self.monitor_cpu()?;
        let perf_map = self.perf_map;
        let perf_maps = perf_map.then(|| PerfMaps::new(is_attached));
        let outputs = Outputs::new(files, self.follow, perf_maps)?;
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
        let print = if self.follow { print_process_progress } else { print_progress };
        let progress = self.progress.then_some(print as fn(&Progress));
        let follow = self.follow;
        let lists = self.block_lists()?.map(Arc::new);
        let options = Options {
            instrument,
            drops,
            recording,
            signals,
            at_most: None,
            progress,
            follow,
            cpu,
            lists,
            selected: None,
            extents: None,
            perf_map,
        };
        Ok(Prepared { options, outputs })
    }
}

/// The default folder for lists of executed blocks, in the user's cache folder (XDG Base Directory
/// Specification). Returns an existing folder, and the path of the lists below it.
fn default_folder() -> Option<(PathBuf, PathBuf)> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let Some(cache) = absolute("XDG_CACHE_HOME") else {
        return Some((absolute("HOME")?, ".cache/hmtt/blocks".into()));
    };
    match (cache.parent(), cache.file_name()) {
        (Some(around), Some(name)) if !cache.exists() => {
            Some((around.to_owned(), Path::new(name).join("hmtt/blocks")))
        }
        _ => Some((cache, "hmtt/blocks".into())),
    }
}

/// Prints a line of progress on the only process.
fn print_progress(progress: &Progress) {
    report!("hmtt: {}", progress_text(progress));
}

/// Prints a line of progress on one of several processes.
fn print_process_progress(progress: &Progress) {
    report!("hmtt: process {}: {}", progress.pid, progress_text(progress));
}

fn progress_text(progress: &Progress) -> String {
    let Progress { blocks_per_second, queue_fill, hottest, .. } = progress;
    let rates = format!(
        "{:.1} M blocks/s, rings at most {:.0} % full",
        blocks_per_second / 1e6,
        100.0 * queue_fill
    );
    match hottest {
        Some((function, part)) => {
            let function = hmtt_format::escape::message(function);
            format!("{rates}, hottest function {function} ({:.0} %)", 100.0 * part)
        }
        None => rates,
    }
}

/// Parses the geometry of a cache: size, ways and line size, such as `32K,8,64`.
fn geometry(text: &str) -> Result<Geometry, String> {
    let number = |text: &str| -> Option<u64> {
        let (digits, unit) = match text.trim().strip_suffix(['K', 'k']) {
            Some(digits) => (digits, 1024),
            None => (text.trim(), 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    };
    let numbers: Option<Vec<u64>> = text.split(',').map(number).collect();
    let geometry = match numbers.as_deref() {
        Some([size, ways, line]) => Geometry::new(*size, *ways, *line),
        _ => return Err("give three numbers, such as 32K,8,64".into()),
    };
    geometry.ok_or_else(|| "lines and sets must be powers of two, at most 64M and 64 ways".into())
}
