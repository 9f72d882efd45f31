//! `hmtt tag --follow`: writes the counts or logs of a process, its children and the programs that they execute.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hmtt_format::escape;
use hmtt_probe::control::{
    Ending, LogSummary, Output, ProgramCounts, Start, TagError, Tagged, TraceObserver, TreeCounts,
    follow_tree,
};
use hmtt_probe::ptrace::PtraceError;
use hmtt_probe::selection::Selection;
use nix::sys::signal::SigSet;
use nix::unistd::Pid;

use super::end::End;
use super::files::Created;
use super::output::{self, Opened};
use super::warnings::{self, chain, shown};

/// Follows the process and its children until all have ended. Returns whether something was lost. If the status of
/// the first process is not 0, this process ends with it.
pub fn run(
    tagged: Tagged,
    to: &output::To,
    opened: Opened,
    start: Start,
    signals: SigSet,
    rules: &Selection,
) -> Result<bool> {
    let mut keeping = Keeping::new(to, tagged.pid(), opened);
    let ending = follow_tree(tagged, Some(start), signals, &mut keeping)?;
    let written = keeping.finish();
    super::rules::warn(rules);
    if let Err(error) = &written {
        tell!("hmtt: {error:#}");
    }
    let end = match ending {
        Ending::Exited(code) => End::Status(code),
        Ending::Signaled(signal) => End::Signal(signal),
        Ending::Detached | Ending::Replaced => End::Status(0),
    };
    end.follow(written.is_err());
    Ok(written.unwrap_or_default())
}

/// State of the processes and their outputs.
struct Keeping<'a> {
    to: &'a output::To,
    /// Tagged processes, with their numbers in the order of their start and their outputs.
    open: BTreeMap<Pid, (usize, Opened)>,
    /// Number of logs named after each process.
    logs: BTreeMap<Pid, usize>,
    begun: usize,
    /// Counts of each program, with its number in the order in which programs began.
    counted: Vec<(usize, ProgramCounts)>,
    /// Logs besides the first: process, program and path.
    named: BTreeMap<usize, (Pid, PathBuf, PathBuf)>,
    /// Programs whose refused functions were already reported.
    refused: BTreeSet<PathBuf>,
    /// Sums over all logs.
    sums: LogSummary,
    /// Number of invalid counts, which the program overwrote.
    damaged: u64,
    /// Whether tags had to be removed from a process before its end.
    is_lost: bool,
    failed: Option<anyhow::Error>,
    /// File for the counts; `None` selects standard error.
    counts: Option<Created>,
}

impl<'a> Keeping<'a> {
    fn new(to: &'a output::To, first: Pid, mut opened: Opened) -> Self {
        let counts = match &mut opened.result {
            output::Result::Counts(file) => file.take(),
            output::Result::Written => None,
        };
        Keeping {
            counts,
            to,
            open: BTreeMap::from([(first, (0, opened))]),
            logs: BTreeMap::new(),
            begun: 1,
            counted: Vec::new(),
            named: BTreeMap::new(),
            refused: BTreeSet::new(),
            sums: LogSummary::default(),
            damaged: 0,
            is_lost: false,
            failed: None,
        }
    }

    /// Stores the first error; the programs continue.
    fn keep(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    fn finish(mut self) -> Result<bool> {
        for (pid, program, log) in self.named.values() {
            let (program, log) = (shown(program), shown(log));
            tell!("hmtt: log of process {pid}, {program}: {log}");
        }
        if self.to.has_counts() {
            self.counted.sort_by_key(|(number, _)| *number);
            let counted = std::mem::take(&mut self.counted);
            let counted: Vec<ProgramCounts> = counted.into_iter().map(|(_, one)| one).collect();
            write(&TreeCounts::new(&counted), self.counts.as_ref())?;
        }
        let is_lost = output::tell(Some(&self.sums), self.damaged) || self.is_lost;
        self.failed.map_or(Ok(is_lost), Err)
    }

    /// Completes the output of a process that has ended.
    fn finish_one(&mut self, tagged: &mut Tagged, ending: Ending) -> Result<()> {
        let (pid, program) = (tagged.pid(), tagged.program().to_owned());
        let Some((number, opened)) = self.open.remove(&pid) else { return Ok(()) };
        if self.refused.insert(program.clone()) {
            warnings::print_refused(tagged, &format!("{}: ", shown(&program)));
        }
        warnings::print_notices(tagged);
        self.is_lost |= tagged.had_conflict();
        warnings::print_removed(tagged, &format!("process {pid}: "));
        if let (Some(log), 1..) = (&opened.log, number) {
            self.named.insert(number, (pid, program.clone(), log.clone()));
        }
        if self.to.has_counts() {
            let counts = ProgramCounts::read(tagged);
            self.damaged += counts.damaged;
            self.counted.push((number, counts));
        }
        let summary = tagged.finish(ending).with_context(|| format!("process {pid}"))?;
        let LogSummary { dropped, interrupted, damaged, events, .. } = summary.unwrap_or_default();
        let sums = &mut self.sums;
        sums.dropped = sums.dropped.saturating_add(dropped);
        sums.interrupted = sums.interrupted.saturating_add(interrupted);
        sums.damaged = sums.damaged.saturating_add(damaged);
        sums.events = sums.events.saturating_add(events);
        if let (Some(map), Some(summary)) = (&opened.map, &summary) {
            map.save(tagged, Some(summary))?;
        }
        Ok(())
    }
}

impl TraceObserver for Keeping<'_> {
    fn changed(&mut self, tagged: &Tagged) {
        let map = self.open.get(&tagged.pid()).and_then(|(_, opened)| opened.map.as_ref());
        let saved = map.map_or(Ok(()), |map| map.save(tagged, None));
        self.keep(saved);
    }

    fn ended(&mut self, mut tagged: Tagged, ending: Ending) {
        let finished = self.finish_one(&mut tagged, ending);
        let pid = tagged.pid();
        self.keep(finished);
        if ending == Ending::Detached {
            match tagged.restore() {
                // The process may have been killed meanwhile.
                Ok(restored) => warnings::print_restored(&restored, &format!("process {pid}: ")),
                Err(TagError::Ptrace(PtraceError::Ended(_))) => {}
                Err(error) => self.keep(Err(error.into())),
            }
        }
    }

    fn output(&mut self, pid: Pid) -> std::result::Result<Output, TagError> {
        let logs = self.logs.entry(pid).or_insert(0);
        *logs += 1;
        let suffix = match logs {
            1 => format!(".{pid}"),
            more => format!(".{pid}.{more}"),
        };
        let (output, opened) = self.to.open_more(&suffix)?;
        self.open.insert(pid, (self.begun, opened));
        self.begun += 1;
        Ok(output)
    }

    fn untagged(&mut self, pid: Pid, program: &Path, error: &TagError) {
        let (program, why) = (shown(program), chain(error));
        tell!("hmtt: warning: process {pid}, {program}, continues untagged: {why}");
    }

    fn output_unused(&mut self, pid: Pid) {
        if let Some((_, opened)) = self.open.remove(&pid) {
            opened.remove();
        }
    }
}

/// Writes the counts of all processes to a file, or prints the sums that are not 0.
fn write(counts: &TreeCounts, output: Option<&Created>) -> Result<()> {
    if let Some(file) = output {
        return super::write_json(&counts.to_json(), file);
    }
    for (program, name, count) in counts.rows().filter(|(.., count)| *count != 0) {
        let program = shown(program.file_name().unwrap_or_default().as_ref());
        tell!("{count:>14} {program}: {}", escape::name(name));
    }
    Ok(())
}
