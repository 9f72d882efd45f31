//! Writes the outputs of the processes that are followed, and reports what could not be tagged.
//!
//! Data flow: [`Outputs`] opens the output of each process when its tags are inserted. It updates
//! the map of the process when the tags change. It completes the output when the process is no
//! longer followed. The counts of all processes go to one file.
//!
//! A process that is followed alone is treated as a tree of one process, but messages do not name
//! it. Its counts are written while the process is still stopped, so that the file is complete when
//! `hmtt tag detach` returns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use hmtt_format::escape;
use hmtt_probe::control::{
    Ending, Output, PerfMap, ProgramCounts, TagError, Tagged, TraceObserver,
};
use hmtt_probe::ptrace::PtraceError;
use nix::unistd::Pid;

use super::counts::Counts;
use super::end::{self, End};
use super::losses::Losses;
use super::output_options::OutputOptions;
use super::process_output::ProcessOutput;
use super::warnings::{self, chain, shown};

/// The followed processes and their outputs.
pub struct Outputs<'a> {
    options: &'a OutputOptions,
    /// Whether children and the programs that processes execute are followed.
    is_tree: bool,
    /// Tagged processes.
    open: BTreeMap<Pid, OpenProcess>,
    /// Number of outputs that are named after each process.
    names: BTreeMap<Pid, usize>,
    /// Number of outputs that were opened.
    opened: usize,
    counts: Counts,
    /// Logs besides the first log, with their number in the order of start.
    logs: BTreeMap<usize, NamedLog>,
    /// Programs whose refused functions were already reported.
    reported: BTreeSet<PathBuf>,
    losses: Losses,
    /// Whether a process continues without tags that should have been tagged.
    has_untagged: bool,
    failures: Failures,
    /// Map of the first process's stubs, for perf(1).
    perf_map: Option<PerfMap>,
    /// A process that is followed alone and has executed another program.
    replaced: Option<Tagged>,
}

/// A tagged process.
struct OpenProcess {
    /// Number in the order of start.
    number: usize,
    output: ProcessOutput,
    /// Result of writing the map when the tags last changed.
    saved: Result<()>,
}

/// A log that is named in a message at the end.
struct NamedLog {
    pid: Pid,
    program: PathBuf,
    path: PathBuf,
}

/// The first error of each kind. The programs continue after an error.
#[derive(Default)]
struct Failures {
    file: Option<anyhow::Error>,
    log: Option<anyhow::Error>,
}

/// The result of writing all outputs.
pub struct Written {
    pub has_failed: bool,
    /// Whether events or counts were lost, or a process was not tagged that should have been.
    pub is_lost: bool,
}

impl Failures {
    fn keep(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.file.get_or_insert(error);
        }
    }

    /// Prints the errors. Returns whether there are any.
    fn print(&self) -> bool {
        let mut errors = self.file.iter().chain(&self.log).peekable();
        let has_failed = errors.peek().is_some();
        for error in errors {
            report!("hmtt: {}", escape::message(&format!("{error:#}")));
        }
        has_failed
    }
}

impl<'a> Outputs<'a> {
    /// Outputs of a process tree. `first`: its first process, whose output is `output`. `is_tree`:
    /// whether further processes may follow.
    pub fn new(
        options: &'a OutputOptions,
        first: Pid,
        mut output: ProcessOutput,
        perf_map: Option<PerfMap>,
        is_tree: bool,
    ) -> Self {
        let counts = Counts::new(output.counts.take());
        let first_process = OpenProcess { number: 0, output, saved: Ok(()) };
        Outputs {
            options,
            is_tree,
            open: BTreeMap::from([(first, first_process)]),
            names: BTreeMap::new(),
            opened: 1,
            counts,
            logs: BTreeMap::new(),
            reported: BTreeSet::new(),
            losses: Losses::default(),
            has_untagged: false,
            failures: Failures::default(),
            perf_map,
            replaced: None,
        }
    }

    /// Returns how the first process has ended. If a process that is followed alone has executed
    /// another program, first waits until that program ends.
    pub fn wait_for_end(&mut self, ending: Ending) -> Result<End> {
        match self.replaced.take() {
            Some(replaced) => end::wait_for_replacement(replaced),
            None => Ok(End::from_ending(ending)),
        }
    }

    /// Completes all outputs. Prints the losses and the errors.
    pub fn finish(mut self) -> Written {
        for NamedLog { pid, program, path } in self.logs.values() {
            let (program, path) = (shown(program), shown(path));
            report!("hmtt: log of process {pid}, {program}: {path}");
        }
        if self.is_tree && self.options.has_counts() {
            self.failures.keep(self.counts.write_tree());
        }
        let is_lost = self.losses.print() | self.has_untagged;
        Written { has_failed: self.failures.print(), is_lost }
    }

    /// Start of messages about a program.
    fn program_prefix(&self, program: &Path) -> String {
        if self.is_tree { format!("{}: ", shown(program)) } else { String::new() }
    }

    /// Start of messages about a process.
    fn process_prefix(&self, pid: Pid) -> String {
        if self.is_tree { format!("process {pid}: ") } else { String::new() }
    }

    /// Completes the output of a process that is no longer followed.
    fn finish_process(&mut self, tagged: &mut Tagged, ending: Ending) {
        let pid = tagged.pid();
        let Some(process) = self.open.remove(&pid) else { return };
        let OpenProcess { number, mut output, saved } = process;
        self.failures.keep(saved);
        self.warn(tagged);
        if let (Some(path), 1..) = (output.log.take(), number) {
            let program = tagged.program().to_owned();
            self.logs.insert(number, NamedLog { pid, program, path });
        }
        if self.options.has_counts() {
            let counts = ProgramCounts::read(tagged);
            self.losses.add_damaged_counts(counts.damaged);
            self.counts.add(number, counts);
            if !self.is_tree {
                self.failures.keep(self.counts.write_process());
            }
        }
        match tagged.finish(ending) {
            Ok(Some(summary)) => {
                self.losses.add_log(&summary);
                self.failures.keep(output.save_map(tagged, Some(&summary)));
            }
            Ok(None) => {}
            Err(error) if self.is_tree => {
                let error = anyhow::Error::from(error).context(format!("process {pid}"));
                self.failures.log.get_or_insert(error);
            }
            Err(error) => drop(self.failures.log.get_or_insert(error.into())),
        }
    }

    /// Reports which functions of a process have no tags, or have lost them, and why.
    fn warn(&mut self, tagged: &Tagged) {
        let program = tagged.program();
        if self.reported.insert(program.to_owned()) {
            warnings::print_refused(tagged, &self.program_prefix(program));
        }
        warnings::print_removed(tagged, &self.process_prefix(tagged.pid()));
        warnings::print_notices(tagged);
        self.losses.had_conflict |= tagged.had_conflict();
    }

    /// Removes the tags of a process and lets it continue.
    fn restore(&mut self, tagged: Tagged) {
        let prefix = self.process_prefix(tagged.pid());
        match tagged.restore() {
            Ok(restored) => warnings::print_restored(&restored, &prefix),
            // The process was killed meanwhile.
            Err(TagError::Ptrace(PtraceError::Ended(_))) => {}
            Err(error) => self.failures.keep(Err(error.into())),
        }
    }
}

impl TraceObserver for Outputs<'_> {
    fn changed(&mut self, tagged: &Tagged) {
        let Some(process) = self.open.get_mut(&tagged.pid()) else { return };
        process.saved = process.output.save_map(tagged, None).and_then(|()| {
            Ok(self.perf_map.iter_mut().try_for_each(|perf_map| perf_map.add(tagged))?)
        });
    }

    fn ended(&mut self, mut tagged: Tagged, ending: Ending) {
        self.finish_process(&mut tagged, ending);
        match ending {
            Ending::Detached => self.restore(tagged),
            Ending::Replaced if !self.is_tree => self.replaced = Some(tagged),
            Ending::Replaced | Ending::Exited(_) | Ending::Signaled(_) => {}
        }
    }

    fn output(&mut self, pid: Pid) -> std::result::Result<Output, TagError> {
        warnings::warn_of_leak_detector(pid);
        let names = self.names.entry(pid).or_insert(0);
        *names += 1;
        let suffix = match names {
            1 => format!(".{pid}"),
            more => format!(".{pid}.{more}"),
        };
        let (tags_output, output) = self.options.open_process(&suffix)?;
        let number = self.opened;
        self.open.insert(pid, OpenProcess { number, output, saved: Ok(()) });
        self.opened += 1;
        Ok(tags_output)
    }

    fn untagged(&mut self, pid: Pid, program: &Path, error: &TagError) {
        let (program, why) = (shown(program), chain(error));
        report!("hmtt: warning: process {pid}, {program}, continues untagged: {why}");
        self.has_untagged = true;
    }

    fn output_unused(&mut self, pid: Pid) {
        if let Some(process) = self.open.remove(&pid) {
            process.output.remove();
        }
    }
}
