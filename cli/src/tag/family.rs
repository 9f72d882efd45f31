//! `hmtt tag --follow`: writes the counts or logs of a process, its children and the programs that they execute.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hmtt_format::escape;
use hmtt_probe::control::{
    Ending, LogSummary, Output, Start, TagError, Tagged, TraceObserver, follow_all,
};
use hmtt_probe::ptrace::PtraceError;
use hmtt_probe::selection::Selection;
use nix::sys::signal::SigSet;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::blocks;
use super::end::End;
use super::files::Created;
use super::output::{self, Opened};
use super::shown;

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
    let ending = follow_all(tagged, start, signals, &mut keeping)?;
    let written = keeping.finish();
    super::rules::warn(rules);
    if let Err(error) = &written {
        eprintln!("hmtt: {error:#}");
    }
    let end = match ending {
        Ending::Exited(code) => End::Status(code),
        Ending::Signaled(signal) => End::Signal(signal),
        Ending::Detached | Ending::Replaced => End::Status(0),
    };
    end.follow(written.is_err());
    Ok(written.unwrap_or_default())
}

/// Counts of one program in one process.
struct Counted {
    /// Number of the program, in the order in which programs began.
    number: usize,
    pid: Pid,
    program: PathBuf,
    /// File, first address, name and number of calls of each function.
    functions: Vec<((PathBuf, u64, String), u64)>,
    /// Counts of blocks, if they were requested.
    blocks: Option<Vec<blocks::Counted>>,
}

impl Counted {
    /// The JSON description of the counts.
    fn json(&self) -> Value {
        let functions = self.functions.iter();
        let functions: Vec<Value> = functions
            .map(|((_, _, name), calls)| json!({ "name": name, "calls": calls }))
            .collect();
        let pid = self.pid.as_raw();
        let mut json = json!({ "pid": pid, "program": self.program, "functions": functions });
        if let Some(blocks) = &self.blocks {
            json["blocks"] = blocks.iter().map(blocks::Counted::json).collect();
        }
        json
    }
}

/// State of the processes and their outputs.
struct Keeping<'a> {
    to: &'a output::To,
    /// Tagged processes, with their numbers in the order of their start and their outputs.
    open: BTreeMap<Pid, (usize, Opened)>,
    /// Number of logs named after each process.
    logs: BTreeMap<Pid, usize>,
    begun: usize,
    counted: Vec<Counted>,
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
            eprintln!("hmtt: log of process {pid}, {program}: {log}");
        }
        if self.to.has_counts() {
            self.counted.sort_by_key(|counted| counted.number);
            write(&self.counted, self.counts.as_ref())?;
        }
        let is_lost = output::tell(Some(&self.sums), self.damaged) || self.is_lost;
        self.failed.map_or(Ok(is_lost), Err)
    }

    /// Completes the output of a process that has ended.
    fn finish_one(&mut self, tagged: &mut Tagged, ending: Ending) -> Result<()> {
        let (pid, program) = (tagged.pid(), tagged.program().to_owned());
        let Some((number, opened)) = self.open.remove(&pid) else { return Ok(()) };
        if self.refused.insert(program.clone()) {
            super::tell_refused(tagged, &format!("{}: ", shown(&program)));
        }
        super::tell_notices(tagged);
        self.is_lost |= tagged.has_taken_gs();
        super::tell_taken_out(tagged, &format!("process {pid}: "));
        if let (Some(log), 1..) = (&opened.log, number) {
            self.named.insert(number, (pid, program.clone(), log.clone()));
        }
        if self.to.has_counts() {
            let counts = tagged.counts();
            self.damaged += counts.iter().map(|thread| thread.damaged).sum::<u64>();
            let total =
                |at: usize| counts.iter().filter_map(|one| one.entries.get(at)).sum::<u64>();
            let functions = tagged.objects().map(|(number, object, function)| {
                let function = (object.to_owned(), function.start, function.name.clone());
                (function, total(number as usize))
            });
            let functions = functions.collect();
            let blocks = tagged.is_finer().then(|| blocks::counted(tagged, total));
            self.counted.push(Counted { number, pid, program, functions, blocks });
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
                Ok(restored) => super::tell_restored(&restored, &format!("process {pid}: ")),
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
        let (program, why) = (shown(program), output::chain(error));
        eprintln!("hmtt: warning: process {pid}, {program}, goes on untagged: {why}");
    }

    fn output_unused(&mut self, pid: Pid) {
        if let Some((_, opened)) = self.open.remove(&pid) {
            opened.remove();
        }
    }
}

/// Writes the counts of all processes together, and in a file also those of each process.
fn write(all: &[Counted], output: Option<&Created>) -> Result<()> {
    let mut sums = BTreeMap::<_, u64>::new();
    for Counted { program, functions, .. } in all {
        for (function, calls) in functions {
            *sums.entry((program, function)).or_default() += calls;
        }
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    let blocks = sums_of_blocks(all);
    let Some(file) = output else {
        let functions =
            rows.iter().map(|((program, (_, _, name)), calls)| (*calls, *program, name));
        let blocks = blocks.iter().map(|(program, block)| (block.count, *program, &block.name));
        for (count, program, name) in functions.chain(blocks).filter(|(count, ..)| *count != 0) {
            let program = shown(program.file_name().unwrap_or_default().as_ref());
            eprintln!("{count:>14} {program}: {}", escape::name(name));
        }
        return Ok(());
    };
    let functions = rows.iter().map(|((program, (_, _, name)), calls)| {
        json!({ "name": name, "calls": calls, "program": program })
    });
    let processes = all.iter().map(Counted::json);
    let (functions, processes): (Vec<_>, Vec<_>) = (functions.collect(), processes.collect());
    let mut json = json!({ "functions": functions, "processes": processes });
    if all.iter().any(|one| one.blocks.is_some()) {
        let blocks = blocks.into_iter().map(|(program, block)| {
            let mut block = block.json();
            block["program"] = json!(program);
            block
        });
        json["blocks"] = blocks.collect();
    }
    let text = serde_json::to_string_pretty(&json)?;
    Ok(file.write(&(text + "\n"))?)
}

/// Sums of the blocks of each program, the most frequent first.
fn sums_of_blocks(all: &[Counted]) -> Vec<(&PathBuf, blocks::Counted)> {
    let mut sums = BTreeMap::<_, blocks::Counted>::new();
    for Counted { program, blocks, .. } in all {
        for block in blocks.iter().flatten() {
            let sum = sums.entry((program, &block.object, block.address));
            sum.and_modify(|sum| sum.count += block.count).or_insert_with(|| block.clone());
        }
    }
    let mut sums: Vec<_> = sums.into_iter().map(|((program, ..), sum)| (program, sum)).collect();
    sums.sort_by_key(|(_, block)| std::cmp::Reverse(block.count));
    sums
}
