//! `hmtt tag`: counts or logs the calls of functions in running programs.

mod auto;
mod blocks;
mod detach;
mod end;
mod family;
mod files;
mod list;
mod output;
mod program;
mod rules;
mod symbols;
mod values;
mod warnings;

use std::ffi::OsString;

use anyhow::{Context, Result};
use clap::Subcommand;
use hmtt_format::escape;
use hmtt_probe::control::{Output, PerfMap, ProgramCounts, Start, TagError, Tagged, follow};
use hmtt_probe::disassembly::Granularity;
use hmtt_probe::ptrace::{self, Process};
use hmtt_probe::selection::{Effect, Selection};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use self::files::{Created, Unbegun};
use super::tag_report;

/// Count or log the calls of functions in a running program, without its source
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::List),
    Run(Run),
    Attach(Attach),
    Detach(Detach),
    Symbols(symbols::Symbols),
    Report(tag_report::Arguments),
}

/// Run a program with its functions tagged
#[derive(clap::Args)]
struct Run {
    #[command(flatten)]
    how: How,
    /// Tag from the first instruction on, including static initialisers, not only from main
    #[arg(long)]
    initializers: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROG",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

/// Tag the functions of a running process until Ctrl-C, or until it ends
#[derive(clap::Args)]
struct Attach {
    #[command(flatten)]
    how: How,
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Remove the tags from a process, whether its hmtt tag still runs or was killed
#[derive(clap::Args)]
struct Detach {
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
}

#[derive(clap::Args)]
struct How {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    auto: auto::Auto,
    #[command(flatten)]
    to: output::To,
    /// Limit on the cost of tags, as a share of the program's processor time without them: tags of the most frequently
    /// called functions are removed until the cost is below the limit
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    budget: Option<f64>,
    /// Name the stubs for perf, in /tmp/perf-PID.map, until the tags are removed or the program ends
    #[arg(long, conflicts_with = "follow")]
    perf_map: bool,
    /// Follow children and the programs that processes execute; each is tagged separately
    #[arg(short, long)]
    follow: bool,
    /// Tag the process although seccomp filters restrict its system calls, or its code sets the register gs
    #[arg(long)]
    force: bool,
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
struct Which {
    /// Select functions: a name, a glob, regex=PATTERN, size>=BYTES, size<BYTES, list=FILE, source=FILE, or
    /// library=FILE[/RULE]; by default all functions of the program
    #[arg(short, long, value_name = "RULE")]
    include: Vec<String>,
    /// Exclude functions; rules as for --include
    #[arg(short = 'x', long, value_name = "RULE")]
    exclude: Vec<String>,
    /// Tag all basic blocks of the selected functions that this rule matches; rules as for --include
    #[arg(long, value_name = "RULE")]
    blocks: Vec<String>,
    /// Tag the heads of loops in the selected functions that this rule matches, to count iterations
    #[arg(long, value_name = "RULE")]
    loops: Vec<String>,
}

impl Which {
    fn selection(&self) -> Result<Selection> {
        let include = self.include.iter().map(|rule| (Effect::Include, rule.as_str()));
        let exclude = self.exclude.iter().map(|rule| (Effect::Exclude, rule.as_str()));
        let loops = self.loops.iter().map(|rule| (Granularity::Loops, rule.as_str()));
        let blocks = self.blocks.iter().map(|rule| (Granularity::Blocks, rule.as_str()));
        Ok(Selection::parse(include.chain(exclude))?.with_granularity(loops.chain(blocks))?)
    }
}

/// Everything that is read, checked and opened before the program is started or stopped.
struct Ready {
    selection: Selection,
    output: Output,
    to: output::Opened,
    /// Signals that end tagging.
    signals: SigSet,
    /// Files that are removed if tagging does not start.
    unbegun: Unbegun,
}

impl How {
    /// Checks the options and creates files, before a program is started or stopped.
    fn ready(&self) -> Result<Ready> {
        let selection = self.which.selection()?;
        if self.follow {
            self.to.check_follow()?;
        }
        let signals = block()?;
        ptrace::ignore_file_size_signal();
        let (output, to) = self.to.open()?;
        let unbegun = to.unbegun();
        if self.budget.is_some() && !output.counts_calls() {
            return Err(TagError::NoBudget.into());
        }
        Ok(Ready { selection, output, to, signals, unbegun })
    }
}

/// Runs the command. Returns whether something was lost.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Report(arguments) => tag_report::run(arguments),
        Command::List(arguments) => list::run(arguments).map(|()| false),
        Command::Run(arguments) => {
            let ready = arguments.how.ready()?;
            let mut process = ptrace::launch(&arguments.program)?;
            process.risk_policy.force = arguments.how.force;
            let pid = process.pid;
            let start = if arguments.initializers { Start::Now } else { Start::Main };
            let ran = tag(process, &arguments.how, [start; 2], ready);
            if ran.is_err() {
                // This command started the process, and the user did not ask for an untagged run.
                let _ = kill(pid, Signal::SIGKILL);
            }
            ran
        }
        Command::Symbols(arguments) => symbols::run(arguments).map(|()| false),
        Command::Detach(arguments) => detach::run(Pid::from_raw(arguments.pid)).map(|()| false),
        Command::Attach(arguments) => {
            let ready = arguments.how.ready()?;
            let (pid, force) = (Pid::from_raw(arguments.pid), arguments.how.force);
            let process = Process::attach_checked(pid, force)?;
            tag(process, &arguments.how, [Start::Now, Start::Main], ready)
        }
    }
}

/// Blocks the signals that end tagging and those of the process, which are waited for instead.
fn block() -> Result<SigSet> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|one| signals.add(one));
    let mut blocked = signals;
    blocked.add(Signal::SIGCHLD);
    blocked.thread_block().context("cannot block signals")?;
    Ok(signals)
}

/// Tags a process and waits for its end. `start`: when tagging starts, for this program and for programs that it or
/// a child executes.
fn tag(process: Process, how: &How, start: [Start; 2], ready: Ready) -> Result<bool> {
    let Ready { selection, output, to, signals, unbegun } = ready;
    let image = program::read_from_process(process.pid, &selection)?;
    let perf_map = how.perf_map.then(|| PerfMap::create(process.pid));
    let mut perf_map = perf_map.transpose()?;
    // A program that is executed later may contain functions that this one lacks.
    if !how.follow {
        rules::check(&selection, &image)?;
    }
    let rules = selection.clone();
    let chosen = how.auto.choose(process, &image, selection, start[0], signals)?;
    let Some((process, selection, begin)) = chosen else { return Ok(false) };
    let mut tagged = Tagged::new(process, image, selection, output, begin)?;
    if let Some(Err(error)) = how.budget.map(|share| tagged.set_budget(share)) {
        tagged.give_up();
        return Err(error.into());
    }
    if how.follow {
        unbegun.keep();
        return family::run(tagged, &how.to, to, start[1], signals, &rules);
    }
    unbegun.keep();
    let (map, result) = (&to.map, &to.result);
    let mut saved = Ok(());
    let (mut tagged, ending) = follow(tagged, signals, |tagged| {
        saved = map.iter().try_for_each(|map| map.save(tagged, None)).and_then(|()| {
            Ok(perf_map.iter_mut().try_for_each(|perf_map| perf_map.add(tagged))?)
        });
    })?;
    warnings::print_refused(&tagged, "");
    warnings::print_removed(&tagged, "");
    warnings::print_notices(&tagged);
    rules::warn_of_libraries(&rules);
    let had_conflict = tagged.had_conflict();
    let summary = tagged.finish(ending);
    let counts = ProgramCounts::read(&tagged);
    let written = saved.and_then(|()| {
        if let (Some(map), Ok(Some(summary))) = (map, &summary) {
            map.save(&tagged, Some(summary))?;
        }
        match result {
            output::Result::Counts(file) => write(&counts, file.as_ref()),
            output::Result::Written => Ok(()),
        }
    });
    // A failure to write must not affect the program: it continues, or we end with its status.
    let end = end::leave(tagged, ending)?;
    drop(perf_map);
    let (summary, failed) = match summary {
        Ok(summary) => (summary, None),
        Err(error) => (None, Some(error.into())),
    };
    let failed = [written.err(), failed];
    for error in failed.iter().flatten() {
        tell!("hmtt: {error:#}");
    }
    let is_cut = output::tell(summary.as_ref(), counts.damaged) || had_conflict;
    end.follow(failed.iter().any(Option::is_some));
    Ok(is_cut)
}

/// Writes the counts of a process to a file, or prints those that are not 0.
fn write(counts: &ProgramCounts, output: Option<&Created>) -> Result<()> {
    if let Some(file) = output {
        return write_json(&counts.to_json(), file);
    }
    let functions = counts.functions().into_iter().map(|one| (one.calls, &one.name));
    let blocks = counts.blocks().into_iter().map(|one| (one.count, &one.name));
    for (count, name) in functions.chain(blocks).filter(|(count, _)| *count != 0) {
        tell!("{count:>14} {}", escape::name(name));
    }
    Ok(())
}

fn write_json(value: &Value, file: &Created) -> Result<()> {
    Ok(file.write(&(serde_json::to_string_pretty(value)? + "\n"))?)
}
