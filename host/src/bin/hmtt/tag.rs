//! `hmtt tag`: running programs to counts of how often each function was entered, or to when.

mod detach;
mod family;
mod output;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use hmtt_probe::control::{Ending, Start, TagError, Tagged, ThreadCounts, follow, verdicts};
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::ptrace::{self, Process};
use hmtt_probe::selection::{Effect, Selection};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::json;

use super::tag_report;

/// Count or log the calls of functions of a running program, without its source
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Run(Run),
    Attach(Attach),
    Detach(Detach),
    Report(tag_report::Arguments),
}

/// List the functions of a program, and which of them cannot be tagged, and why
#[derive(clap::Args)]
struct List {
    /// A program, or the number of a process
    #[arg(value_name = "PROG|PID")]
    program: String,
    #[command(flatten)]
    which: Which,
}

/// Run a program with its functions tagged
#[derive(clap::Args)]
struct Run {
    #[command(flatten)]
    how: How,
    /// Tag from the first instruction on: static initialisers too, not only from main
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
    /// Number of the process
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Take the tags out of a process: those of another hmtt tag, or of one that was killed
#[derive(clap::Args)]
struct Detach {
    /// Number of the process
    #[arg(value_name = "PID")]
    pid: i32,
}

#[derive(clap::Args)]
struct How {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    to: output::To,
    /// What tags may cost, of the program's processor time without them: functions that are called most are
    /// taken out again until the rest is cheap enough
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    budget: Option<f64>,
    /// Follow children and the programs that processes become: they are tagged too, each by itself
    #[arg(short, long)]
    follow: bool,
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

/// Rules; the last that matches a function decides, exclusions after inclusions.
#[derive(clap::Args)]
struct Which {
    /// Choose functions: a name, a glob, regex=PATTERN, size>=BYTES, size<BYTES, list=FILE,
    /// source=FILE, or library=FILE[/RULE]; all of the program are chosen if nothing is
    #[arg(short, long, value_name = "RULE")]
    include: Vec<String>,
    /// Leave functions out; rules as for --include
    #[arg(short = 'x', long, value_name = "RULE")]
    exclude: Vec<String>,
}

impl Which {
    fn selection(&self) -> Result<Selection> {
        let include = self.include.iter().map(|rule| (Effect::Include, rule.as_str()));
        let exclude = self.exclude.iter().map(|rule| (Effect::Exclude, rule.as_str()));
        Ok(Selection::parse(include.chain(exclude))?)
    }
}

/// Whether something was lost.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Report(arguments) => tag_report::run(arguments),
        Command::List(arguments) => list(arguments).map(|()| false),
        Command::Run(arguments) => {
            let signals = block()?;
            let process = ptrace::launch(&arguments.program)?;
            let pid = process.pid;
            let start = if arguments.initializers { Start::Now } else { Start::Main };
            let ran = tag(process, &arguments.how, [start; 2], signals);
            if ran.is_err() {
                // It is ours, and nobody asked for it untagged.
                let _ = kill(pid, Signal::SIGKILL);
            }
            ran
        }
        Command::Detach(arguments) => detach::run(Pid::from_raw(arguments.pid)).map(|()| false),
        Command::Attach(arguments) => {
            let signals = block()?;
            let process = Process::attach(Pid::from_raw(arguments.pid))?;
            tag(process, &arguments.how, [Start::Now, Start::Main], signals)
        }
    }
}

fn list(arguments: &List) -> Result<()> {
    let selection = arguments.which.selection()?;
    let path = match arguments.program.parse::<i32>() {
        Ok(pid) => program_of(pid)?,
        Err(_) => arguments.program.clone().into(),
    };
    let image = read(&path, &selection)?;
    let mut output = std::io::stdout().lock();
    for (function, rewrite) in verdicts(&image) {
        if !selection.matches(function, None) {
            continue;
        }
        let Function { name, start, size, .. } = function;
        match rewrite {
            Ok(rewrite) => {
                let hidden = rewrite.hidden.len();
                write!(output, "{start:x} {size} {name}")?;
                if hidden > 0 {
                    write!(output, ": {hidden} exits not seen")?;
                }
                writeln!(output)?;
            }
            Err(refusal) => writeln!(output, "{start:x} {size} {name}: not tagged: {refusal}")?,
        }
    }
    Ok(())
}

/// Reads a program, with what rules need of it.
fn read(path: &Path, selection: &Selection) -> Result<Image> {
    let mut image = Image::read(path)?;
    if selection.has_sources() {
        image.find_sources()?;
        let has_none = image.functions.iter().all(|function| function.source.is_none());
        if has_none && !selection.has_libraries() {
            bail!("{}: rules choose by source file, and it has no line tables", path.display());
        }
    }
    Ok(image)
}

fn program_of(pid: i32) -> Result<PathBuf> {
    let link = format!("/proc/{pid}/exe");
    std::fs::read_link(&link).with_context(|| format!("process {pid}: cannot find its program"))
}

/// Signals that end the tagging are waited for, as are those of the process.
fn block() -> Result<SigSet> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|one| signals.add(one));
    let mut blocked = signals;
    blocked.add(Signal::SIGCHLD);
    blocked.thread_block().context("cannot block signals")?;
    Ok(signals)
}

/// `start`: when it is tagged, and when programs are that it, or a child, becomes.
fn tag(process: Process, how: &How, start: [Start; 2], signals: SigSet) -> Result<bool> {
    let selection = how.which.selection()?;
    let image = read(Path::new(&program_of(process.pid.as_raw())?), &selection)?;
    if how.follow {
        how.to.check_follow()?;
    }
    let (output, to) = how.to.open()?;
    // Before anything is changed.
    if how.budget.is_some() && !output.tells_calls() {
        return Err(TagError::NoBudget.into());
    }
    let mut tagged = Tagged::new(process, image, selection, output, start[0])?;
    if let Some(share) = how.budget {
        tagged.set_budget(share)?;
    }
    if how.follow {
        return family::run(tagged, &how.to, to, start[1], signals);
    }
    let mut saved = Ok(());
    let (mut tagged, ending) = follow(tagged, signals, |tagged| {
        saved = to.map.iter().try_for_each(|map| map.save(tagged, None));
    })?;
    saved?;
    if !tagged.refused.is_empty() {
        let (refused, all) =
            (tagged.refused.len(), tagged.refused.len() + tagged.functions().count());
        eprintln!(
            "hmtt: warning: {refused} of {all} functions are not tagged; hmtt tag list says why"
        );
    }
    for (out, function) in tagged.taken_out() {
        eprintln!(
            "hmtt: {} was taken out: called {:.0} times a second of processor time",
            function.name, out.calls_per_second
        );
    }
    let summary = tagged.finish(ending);
    if let (Some(map), Ok(Some(summary))) = (&to.map, &summary) {
        map.save(&tagged, Some(summary))?;
    }
    if let output::Result::Counts(path) = &to.result {
        write(&tagged, &tagged.counts(), path.as_deref())?;
    }
    let status = end(tagged, ending)?;
    // The program comes first: it goes on, or its status is ours, whatever became of the log.
    match summary {
        Ok(summary) if status == 0 => Ok(output::tell(summary.as_ref())),
        Ok(summary) => {
            output::tell(summary.as_ref());
            std::process::exit(status)
        }
        Err(error) => {
            eprintln!("hmtt: {:#}", anyhow::Error::from(error));
            std::process::exit(if status == 0 { 1 } else { status })
        }
    }
}

/// Leaves the program; its status comes back.
fn end(tagged: Tagged, ending: Ending) -> Result<i32> {
    match ending {
        Ending::Detached => drop(tagged.restore()?),
        Ending::Replaced => return wait_for(tagged.release()?),
        Ending::Exited(code) => return Ok(code),
        Ending::Signaled(signal) => bail!("the program was ended by {signal}"),
    }
    Ok(0)
}

/// Waits for a program that a tagged one has become, if it is our child.
fn wait_for(pid: Pid) -> Result<i32> {
    match waitpid(pid, None) {
        Ok(WaitStatus::Exited(_, code)) => Ok(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => bail!("the program was ended by {signal}"),
        _ => Ok(0),
    }
}

fn write(tagged: &Tagged, counts: &[ThreadCounts], output: Option<&Path>) -> Result<()> {
    let total =
        |at: usize| counts.iter().map(|thread| thread.entries.get(at).unwrap_or(&0)).sum::<u64>();
    let mut rows: Vec<(u64, &Function)> =
        tagged.functions().enumerate().map(|(at, function)| (total(at), function)).collect();
    rows.sort_by_key(|(calls, _)| std::cmp::Reverse(*calls));
    let Some(path) = output else {
        let called = rows.iter().filter(|(calls, _)| *calls != 0);
        called.for_each(|(calls, function)| eprintln!("{calls:>14} {}", function.name));
        return Ok(());
    };
    let functions: Vec<_> = rows
        .iter()
        .map(|(calls, function)| json!({ "name": function.name, "calls": calls }))
        .collect();
    let text = serde_json::to_string_pretty(&json!({ "functions": functions }))?;
    std::fs::write(path, text + "\n").with_context(|| path.display().to_string())
}
