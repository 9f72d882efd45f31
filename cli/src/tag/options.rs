//! Defines the options of `hmtt tag run` and `hmtt tag attach`, and prepares for tagging.

use anyhow::{Context, Result};
use hmtt_probe::control::{Output, TagError};
use hmtt_probe::disassembly::Granularity;
use hmtt_probe::ptrace;
use hmtt_probe::selection::{Effect, Selection};
use nix::sys::signal::SigSet;

use super::auto::Auto;
use super::files::NewFiles;
use super::output_options::OutputOptions;
use super::process_output::ProcessOutput;

#[derive(clap::Args)]
pub struct TagOptions {
    #[command(flatten)]
    rules: RuleOptions,
    #[command(flatten)]
    pub auto: Auto,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Limit on the cost of tags, as a share of the program's processor time without them: tags of
    /// the most frequently called functions are removed until the cost is below the limit
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub budget: Option<f64>,
    /// Name the stubs for perf, in /tmp/perf-PID.map, until the tags are removed or the program
    /// ends
    #[arg(long, conflicts_with = "follow")]
    pub perf_map: bool,
    /// Follow children and the programs that processes execute; each is tagged separately
    #[arg(short, long)]
    pub follow: bool,
    /// Tag the process although seccomp filters restrict its system calls, or its code sets the
    /// register gs
    #[arg(long)]
    pub force: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let wrong = || format!("{text} is no percentage above 0");
    number
        .ok()
        .filter(|share| share.is_finite() && *share > 0.0)
        .map(|one| one / 100.0)
        .ok_or_else(wrong)
}

/// Rules. The last rule that matches a function decides, with exclusions after inclusions.
#[derive(clap::Args)]
pub struct RuleOptions {
    /// Select functions: a name, a glob, regex=PATTERN, size>=BYTES, size<BYTES, list=FILE,
    /// source=FILE, or library=FILE[/RULE]; by default all functions of the program
    #[arg(short, long, value_name = "RULE")]
    include: Vec<String>,
    /// Exclude functions; rules as for --include
    #[arg(short = 'x', long, value_name = "RULE")]
    exclude: Vec<String>,
    /// Tag all basic blocks of the selected functions that this rule matches; rules as for
    /// --include
    #[arg(long, value_name = "RULE")]
    blocks: Vec<String>,
    /// Tag the heads of loops in the selected functions that this rule matches, to count iterations
    #[arg(long, value_name = "RULE")]
    loops: Vec<String>,
}

impl RuleOptions {
    pub fn selection(&self) -> Result<Selection> {
        let include = self.include.iter().map(|rule| (Effect::Include, rule.as_str()));
        let exclude = self.exclude.iter().map(|rule| (Effect::Exclude, rule.as_str()));
        let loops = self.loops.iter().map(|rule| (Granularity::Loops, rule.as_str()));
        let blocks = self.blocks.iter().map(|rule| (Granularity::Blocks, rule.as_str()));
        Ok(Selection::parse(include.chain(exclude))?.with_granularity(loops.chain(blocks))?)
    }
}

/// Inputs that were read and checked, and outputs that were opened, before the program is started
/// or stopped.
pub struct Prepared {
    pub selection: Selection,
    /// Output that the tags of the first process write.
    pub output: Output,
    /// The other outputs of the first process.
    pub process_output: ProcessOutput,
    /// Signals that end tagging.
    pub signals: SigSet,
    /// Files that are removed if tagging does not start.
    pub new_files: NewFiles,
}

impl TagOptions {
    /// Checks the options and creates files, before a program is started or stopped.
    pub fn prepare(&self) -> Result<Prepared> {
        let selection = self.rules.selection()?;
        if self.follow {
            self.output.check_follow()?;
        }
        let signals = block_signals()?;
        ptrace::ignore_file_size_signal();
        let (output, process_output) = self.output.open()?;
        let new_files = process_output.new_files();
        if self.budget.is_some() && !output.counts_calls() {
            return Err(TagError::NoBudget.into());
        }
        Ok(Prepared { selection, output, process_output, signals, new_files })
    }
}

/// Blocks the signals that end tagging and the signals that report changes of the process. These
/// signals are waited for instead of being delivered.
pub fn block_signals() -> Result<SigSet> {
    ptrace::block_signals().context("cannot block signals")
}
