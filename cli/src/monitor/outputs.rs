//! Writes the profiles of the processes that are followed.
//!
//! The first program of the first process writes the file that the user names, `FILE`. With
//! `--follow`, each other program of a process writes `FILE.PID`, and further programs of one
//! process write `FILE.PID.2` and so on. A file is created before its program is followed, and
//! removed if the program is not followed after all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hmtt_format::escape;
use hmtt_probe::control::TagError;
use hmtt_probe::selection::Selection;
use hmtt_translator::control::{ControlError, Observer, Outcome, Output};
use hmtt_translator::monitor::intervals::Intervals;
use hmtt_translator::profile::{Unread, Written};
use nix::unistd::Pid;

use super::perf_maps::{PerfMaps, PlannedMap};
use super::report;
use crate::tag::files::{Created, NewFiles};
use crate::tag::rules::warn_of_unmatched;
use crate::tag::warnings::{chain, shown, warn_of_leak_detector};

/// Settings for the files that are written.
#[derive(Clone)]
pub struct Files {
    /// Path for the counts of the first process; `None` prints tables.
    pub path: Option<PathBuf>,
    /// Whether existing files are replaced.
    pub overwrite: bool,
    /// Whether basic-block vectors are written beside the counts.
    pub has_vectors: bool,
    /// Whether tables are printed if there is no path.
    pub prints: bool,
    /// The functions that are written; `None` for all functions.
    pub selection: Option<Selection>,
}

/// The outputs of all followed processes.
pub struct Outputs {
    files: Files,
    /// Whether several processes may be followed. If so, messages name the process.
    is_tree: bool,
    /// The output of the first process, until the first process is followed.
    first: Option<ProfileOutput>,
    /// Number of outputs that are named after each process.
    names: BTreeMap<Pid, usize>,
    /// Writer of the code caches' symbols for perf(1), if the user wants them.
    perf_maps: Option<PerfMaps>,
    finished: Arc<Mutex<Finished>>,
}

/// The result of writing all profiles.
#[derive(Default)]
pub struct Finished {
    /// Whether a file could not be written. The error is printed.
    pub has_failed: bool,
    /// Whether counts were lost, or a process was not followed that should have been followed.
    pub is_lost: bool,
    /// The files besides the first, in the order in which their programs ended: process, program
    /// and path.
    named: Vec<(Pid, PathBuf, PathBuf)>,
}

/// The files for the profile of one program. They are removed if this value is dropped before the
/// program is followed.
struct ProfileOutput {
    counts: Option<Created>,
    vectors: Option<Created>,
    new_files: [NewFiles; 2],
    perf_map: Option<PlannedMap>,
    prints: bool,
    selection: Option<Selection>,
}

/// A path with a text appended.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The file, if this process has created it. Such a file is removed again if following the program
/// fails.
fn new_file(created: Option<&Created>) -> NewFiles {
    NewFiles::new(created.into_iter().filter_map(Created::removable).collect())
}

impl Files {
    /// Creates the files of a program. `suffix`: appended to the user's path. The file of vectors
    /// has a further suffix, `.bb`.
    fn create(&self, suffix: &str) -> Result<ProfileOutput, TagError> {
        let path = self.path.as_ref().map(|path| with_suffix(path, suffix));
        let create = |path: &PathBuf| Created::new(path, self.overwrite);
        let counts = path.as_ref().map(create).transpose()?;
        let new_counts = new_file(counts.as_ref());
        let beside = path.filter(|_| self.has_vectors).map(|path| with_suffix(&path, ".bb"));
        let vectors = beside.as_ref().map(create).transpose()?;
        let new_files = [new_counts, new_file(vectors.as_ref())];
        let (prints, selection) = (self.prints, self.selection.clone());
        Ok(ProfileOutput { counts, vectors, new_files, perf_map: None, prints, selection })
    }
}

/// Writes basic-block vectors. Warns of intervals that were dropped for lack of space.
fn write_vectors(intervals: &Intervals, file: &Created, prefix: &str) -> Result<(), TagError> {
    if intervals.dropped > 0 {
        report!("hmtt: warning: {prefix}{} intervals were not kept", intervals.dropped);
    }
    file.write(&intervals.text)
}

/// Warns that rules cannot select functions of a file, because the functions in that file are not
/// known.
fn warn_of_unread(Unread { path, library, why }: &Unread, rules: &Selection, prefix: &str) {
    let (path, why) = (shown(path), chain(why));
    let why = escape::message(&why);
    match library {
        Some(name) if !rules.wants(name) => {}
        Some(_) => {
            report!("hmtt: warning: {prefix}rules cannot name functions of {path}: {why}");
        }
        None if rules.needs_program() => {
            report!(
                "hmtt: warning: {prefix}everything is written, because the functions of {path} are not known: {why}"
            );
        }
        None => {}
    }
}

impl ProfileOutput {
    /// Writes or prints the counts, and warns of losses. `prefix`: start of each message.
    /// `heading`: heading of the printed table. Returns whether writing has failed, and whether
    /// counts were lost.
    fn finish(self, outcome: Outcome, prefix: &str, heading: &str) -> (bool, bool) {
        let ProfileOutput { counts, vectors, new_files, perf_map, prints, selection } = self;
        new_files.into_iter().for_each(NewFiles::keep);
        let Outcome { mut profile, ending, left, perf_map: symbols } = outcome;
        let intervals = profile.intervals.take();
        if let Some(why) = left {
            report!(
                "hmtt: warning: {prefix}the program was followed only until {why}; it goes on natively"
            );
        }
        let Written { profile, unread } = profile.to_file(ending, left, selection.as_ref());
        if let Some(rules) = &selection {
            unread.iter().for_each(|one| warn_of_unread(one, rules, prefix));
        }
        let written = match counts {
            Some(file) => {
                report::note_children(&profile, prefix);
                file.write(profile.to_json())
            }
            None => {
                if prints {
                    let table = report::table(&profile, report::ROWS);
                    report!("{heading}{}", table.trim_end());
                }
                Ok(())
            }
        };
        let written = written.and_then(|()| match (&intervals, &vectors) {
            (Some(intervals), Some(file)) => write_vectors(intervals, file, prefix),
            _ => Ok(()),
        });
        let symbols_written = match (symbols, perf_map) {
            (Some(symbols), Some(map)) => map.write(&symbols).map_err(TagError::from),
            _ => Ok(()),
        };
        let results = [written, symbols_written];
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            report!("hmtt: {}", escape::message(&chain(error)));
        }
        report::warn(&profile, prefix);
        (results.iter().any(Result::is_err), !profile.is_complete())
    }
}

impl Outputs {
    /// Creates the files of the first process. `is_tree`: whether other processes may be followed,
    /// too. `perf_maps`: writer of symbols for perf(1), if the user wants them.
    ///
    /// # Errors
    /// [`TagError::Output`] if the files cannot be created.
    pub fn new(files: Files, is_tree: bool, perf_maps: Option<PerfMaps>) -> Result<Self, TagError> {
        let first = Some(files.create("")?);
        let (names, finished) = Default::default();
        Ok(Outputs { files, is_tree, first, names, perf_maps, finished })
    }

    /// The suffix for the files of a further program of a process.
    fn next_suffix(&mut self, pid: Pid) -> String {
        let names = self.names.entry(pid).or_insert(0);
        *names += 1;
        match names {
            1 => format!(".{pid}"),
            more => format!(".{pid}.{more}"),
        }
    }

    /// Prints the names of the files besides the first, and the rules that match no function.
    /// Returns the result of writing all profiles.
    pub fn finish(&self) -> Finished {
        if let Some(rules) = &self.files.selection {
            warn_of_unmatched(rules, true);
        }
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        for (pid, program, path) in &finished.named {
            let (program, path) = (shown(program), shown(path));
            report!("hmtt: profile of process {pid}, {program}: {path}");
        }
        std::mem::take(&mut finished)
    }
}

impl Observer for Outputs {
    fn begin(&mut self, pid: Pid, program: &Path) -> Result<Output, TagError> {
        warn_of_leak_detector(pid);
        let perf_map = self.perf_maps.as_mut().map(|maps| maps.begin(pid)).transpose()?;
        let (mut output, path) = match self.first.take() {
            Some(first) => (first, None),
            None => {
                let suffix = match &self.files.path {
                    // A device or pipe has no suffix: all programs write to the same one.
                    Some(path) if !path.is_file() => String::new(),
                    _ => self.next_suffix(pid),
                };
                let path = self.files.path.as_ref().map(|path| with_suffix(path, &suffix));
                (self.files.create(&suffix)?, path)
            }
        };
        output.perf_map = perf_map;
        let (program, finished) = (program.to_owned(), self.finished.clone());
        let (prefix, heading) = if self.is_tree {
            (format!("process {pid}: "), format!("process {pid}, {}:\n", shown(&program)))
        } else {
            Default::default()
        };
        Ok(Box::new(move |outcome| {
            let (has_failed, is_lost) = output.finish(outcome, &prefix, &heading);
            let mut outcome = finished.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.has_failed |= has_failed;
            outcome.is_lost |= is_lost;
            outcome.named.extend(path.map(|path| (pid, program, path)));
        }))
    }

    fn not_followed(&mut self, pid: Pid, program: &Path, error: &ControlError) {
        let (program, why) = (shown(program), chain(error));
        let why = escape::message(&why);
        report!("hmtt: warning: process {pid}, {program}, continues natively: {why}");
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).is_lost = true;
    }
}
