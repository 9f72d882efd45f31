//! Defines options of `hmtt trace run` and `attach`: which accesses are recorded, and how.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hmtt_format::Direction;
use hmtt_probe::ptrace;
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{MonitorCpu, Options, check_cpu};
use hmtt_translator::monitor::hot::Thresholds;
use hmtt_translator::monitor::tally::Recording;
use hmtt_translator::recorded::{Choice, Scope, Silence};
use hmtt_translator::selection::{Chunk, Equality, Omega, Selector};

use super::budget::{Budget, Regulator};
use super::caches::{CacheOptions, TraceOutputs};
use super::outputs::Outputs;
use super::progress::Progress;
use super::region::Region;
use super::sampled::{Sample, Schedule};
use crate::monitor::{Full, selected};
use crate::tag::options::block_signals;

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("shares").multiple(true))]
pub struct TraceOptions {
    /// Write the trace to this file
    #[arg(short, long, value_name = "FILE", required_unless_present = "cache")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file; without this option it is an error
    #[arg(long)]
    overwrite: bool,
    /// Record functions only that a rule selects: a name, a glob, regex=PATTERN, size>=BYTES,
    /// size<BYTES, list=FILE, source=FILE, or library=FILE[/RULE]
    #[arg(short, long, value_name = "RULE")]
    include: Vec<String>,
    /// Record no functions that a rule matches; rules as for --include
    #[arg(short = 'x', long, value_name = "RULE")]
    exclude: Vec<String>,
    /// Record reads only
    #[arg(long, conflicts_with = "writes")]
    reads: bool,
    /// Record writes only
    #[arg(long)]
    writes: bool,
    /// Record this share of the accesses with different addresses of each block, those that tell
    /// most of the others (1% to 100%)
    #[arg(long, value_name = "PERCENT", value_parser = omega, group = "shares")]
    omega: Option<Omega>,
    /// Of accesses that are probably in the same piece of memory of this many bytes one is enough
    #[arg(long, value_name = "BYTES", value_parser = chunk, default_value = "64", requires = "shares")]
    chunk: Chunk,
    /// Which accesses of a block have the same address for sure
    #[arg(long, value_enum, default_value_t = EqualityName::Values, requires = "shares")]
    equality: EqualityName,
    /// Among which accesses some are chosen
    #[arg(long, value_enum, default_value_t = ScopeName::Block, requires = "shares")]
    scope: ScopeName,
    /// Record all executions of blocks without chosen accesses too, so that shares of all accesses
    /// are exact
    #[arg(long)]
    all_blocks: bool,
    /// Do not build superblocks of hot paths, whose blocks record their accesses together
    #[arg(long, conflicts_with = "scope")]
    no_superblocks: bool,
    /// Record for some time, then let the program run natively for some time, and so on, as
    /// 100ms/2s
    #[arg(long, value_name = "ON/OFF", conflicts_with = "cache")]
    sample: Option<Sample>,
    /// Slow the program down by at most this share of its own time, as 50%: record less of
    /// functions with few known accesses for what they cost, and let the program run natively from
    /// time to time if that does not suffice
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["cache", "sample"], group = "shares")]
    budget: Option<Budget>,
    /// Show how much was written, also if the program prints on the same terminal, or as lines if
    /// standard error is none
    #[arg(long, requires = "output")]
    progress: bool,
    /// What a thread does when its ring is full
    #[arg(long, value_enum, default_value_t = Full::Wait)]
    full: Full,
    /// Run the monitor thread on this CPU; by default one that is a core of its own, as far as
    /// there is one
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    #[command(flatten)]
    caches: CacheOptions,
}

/// Which accesses are equal.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EqualityName {
    /// Those by the same registers, of the same values, and the same displacement
    Versions,
    /// Those whose registers follow from the same ones by additions of constants, too
    Values,
}

impl From<EqualityName> for Equality {
    fn from(name: EqualityName) -> Self {
        match name {
            EqualityName::Versions => Equality::Versions,
            EqualityName::Values => Equality::Values,
        }
    }
}

/// Among which accesses some are chosen.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeName {
    /// Those of a basic block
    Block,
    /// Those of a superblock, or of a basic block that is executed by itself
    Superblock,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Block => Scope::Block,
            ScopeName::Superblock => Scope::Superblock,
        }
    }
}

/// Parses the share of representatives that are recorded, such as `25%`.
pub fn omega(text: &str) -> Result<Omega> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent = number.parse().with_context(|| format!("{text} is no share, such as 25%"))?;
    Ok(Omega::from_percent(percent)?)
}

/// Parses the size of a chunk in bytes.
pub fn chunk(text: &str) -> Result<Chunk> {
    let bytes = text.parse().with_context(|| format!("{text} is no number of bytes"))?;
    Chunk::new(bytes).context("a piece of memory has at least one byte")
}

/// Settings and outputs that are prepared before a program is followed.
pub struct Prepared {
    /// Options of the recorder.
    pub options: Options,
    /// Open outputs.
    pub outputs: TraceOutputs,
    /// Decides when the program is recorded; `None` if it is always recorded.
    pub schedule: Option<Schedule>,
}

impl TraceOptions {
    /// The accesses that are recorded. `has_rules`: only some functions are recorded. `has_region`:
    /// only a region is recorded.
    fn choice(&self, has_rules: bool, has_region: bool) -> Choice {
        let selector = match self.omega {
            Some(omega) => Selector::Representatives { omega, chunk: self.chunk },
            None => Selector::Every,
        };
        let equality = self.equality.into();
        let direction = match (self.reads, self.writes) {
            (true, _) => Some(Direction::Read),
            (_, true) => Some(Direction::Write),
            _ => None,
        };
        let is_whole = selector == Selector::Every && direction.is_none() && !has_rules;
        // Instructions can be counted only if all blocks are recorded.
        let counts = self.all_blocks || self.budget.is_some() || has_region;
        let is_loud = is_whole || counts || self.no_superblocks;
        let silence = if is_loud { Silence::Never } else { Silence::Superblocks };
        Choice { selector, scope: self.scope.into(), equality, direction, silence }
    }

    /// Blocks signals and creates the output file. This must happen before a second thread starts.
    /// `prints`: whether the program may print on the standard output of this process. `region`:
    /// the region that is recorded; `None` for everything.
    pub fn prepare(&self, prints: bool, region: Option<Region>) -> Result<Prepared> {
        if region.is_some() && self.full == Full::Drop {
            bail!(
                "--skip and --count need all blocks to count instructions: leave out --full drop"
            );
        }
        let selected = selected(&self.include, &self.exclude)?.map(Arc::new);
        let choice = self.choice(selected.is_some(), region.is_some());
        let chooses = selected.is_some() || choice != Choice::EVERY;
        let is_chosen = chooses || self.sample.is_some() || self.budget.is_some();
        if chooses && self.caches.are_wanted() {
            bail!(
                "caches are simulated with all accesses: leave out --cache, or what chooses accesses"
            );
        }
        if self.caches.json_file().is_some_and(|json| self.output.as_deref() == Some(json)) {
            bail!("--cache-json and --output name the same file");
        }
        let cpu = match self.cpu {
            Some(cpu) => {
                check_cpu(cpu).with_context(|| format!("cannot run on CPU {cpu}"))?;
                MonitorCpu::Fixed(cpu)
            }
            None => MonitorCpu::Chosen,
        };
        let signals = block_signals()?;
        ptrace::ignore_file_size_signal();
        let caches = self.caches.prepare(self.overwrite)?;
        let file = self
            .output
            .as_ref()
            .map(|path| {
                let progress = Progress::new(self.progress, prints);
                Outputs::new(path, self.overwrite, is_chosen, region.clone(), progress)
            })
            .transpose()?;
        let schedule = match (self.sample, self.budget) {
            (Some(sample), _) => Some(Schedule::Fixed(sample)),
            (_, Some(budget)) => {
                Some(Schedule::Budget(Box::new(Regulator::new(budget, choice, self.chunk))))
            }
            _ => None,
        };
        let regulator = match &schedule {
            Some(Schedule::Budget(regulator)) => Some(&**regulator),
            _ => None,
        };
        let counter = regulator.map(Regulator::counter);
        let extents = regulator.map(|one| one.extents.clone());
        let superblocks = (!self.no_superblocks).then_some(Thresholds::OF_SOME_CHUNKS);
        let options = Options {
            instrument: Instrument::Accesses(choice),
            drops: self.full == Full::Drop,
            recording: Recording { superblocks, ..Recording::default() },
            signals,
            at_most: schedule.as_ref().map(Schedule::on),
            progress: None,
            follow: false,
            cpu,
            lists: None,
            selected,
            extents,
            perf_map: false,
        };
        Ok(Prepared {
            options,
            outputs: TraceOutputs { file, caches, counter, region, children: Arc::default() },
            schedule,
        })
    }
}
