//! Writes the trace of a program to a file while the program runs.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hmtt::access_trace::{Writer, WriterOptions};
use hmtt_files::access_trace::{BlockAccesses, Continuation, Function, Unrecorded};
use hmtt_format::escape;
use hmtt_probe::control::TagError;
use hmtt_translator::control::{Outcome, Output};
use hmtt_translator::monitor::Losses;
use hmtt_translator::monitor::accesses::AccessSink;

use super::progress::{CountedFile, Progress};
use super::region::Region;
use crate::monitor::Finished;
use crate::tag::files::{Created, NewFiles};
use crate::tag::warnings::chain;

/// Maximum number of threads that encode chunks.
const MOST_ENCODERS: usize = 8;

/// The file for the trace of a program.
pub struct Outputs {
    path: PathBuf,
    is_chosen: bool,
    created: Option<(Created, NewFiles)>,
    state: Arc<Mutex<State>>,
}

/// The open file, and the result of writing so far.
struct State {
    /// Writer of the file. `None` before the program is followed, and after an error. After an
    /// error nothing more is written, and the program continues.
    writer: Option<Writer<BufWriter<CountedFile>>>,
    /// Losses of the program's threads.
    losses: Losses,
    /// Code that ran natively although that was not planned.
    unrecorded: Unrecorded,
    /// Begin of a native time that was planned; `None` while the program is recorded.
    native_since: Option<Instant>,
    /// The region that is recorded; `None` if everything is recorded.
    region: Option<Region>,
    error: Option<io::Error>,
    finished: Finished,
    progress: Progress,
}

impl State {
    fn write(&mut self, write: impl FnOnce(&mut Writer<BufWriter<CountedFile>>) -> io::Result<()>) {
        if let Some(Err(error)) = self.writer.as_mut().map(write) {
            (self.writer, self.error) = (None, Some(error));
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outputs {
    /// Creates the file. `is_chosen`: whether only some accesses are recorded. `region`: the region
    /// that is recorded; `None` for everything. `progress`: display of the written bytes.
    ///
    /// # Errors
    /// [`TagError::Output`] if the file cannot be created.
    pub fn new(
        path: &Path,
        overwrite: bool,
        is_chosen: bool,
        region: Option<Region>,
        progress: Progress,
    ) -> Result<Self, TagError> {
        let created = Created::new(path, overwrite)?;
        let new_file = NewFiles::new(created.removable().into_iter().collect());
        let state = Arc::new(Mutex::new(State {
            writer: None,
            losses: Losses::default(),
            unrecorded: Unrecorded::default(),
            native_since: None,
            region,
            error: None,
            finished: Finished::default(),
            progress,
        }));
        let created = Some((created, new_file));
        Ok(Outputs { path: path.into(), is_chosen, created, state })
    }

    /// Sets the begin of a native time that was planned; `None` if the program is recorded.
    pub fn set_native_since(&mut self, since: Option<Instant>) {
        lock(&self.state).native_since = since;
    }

    /// Notes that the program runs natively from now on although that was not planned.
    pub fn set_lost(&mut self) {
        let mut state = lock(&self.state);
        state.unrecorded.continuation = Continuation::Natively;
        state.finished.is_lost = true;
    }

    /// Completes the file, and prints what could not be written and what is missing. Returns
    /// whether that has failed, and whether accesses are missing.
    pub fn finish(&mut self) -> Finished {
        let mut state = lock(&self.state);
        state.progress.clear();
        if let Some(since) = state.native_since.take() {
            state.write(|writer| writer.resume(since.elapsed()));
        }
        let unrecorded = state.unrecorded;
        if unrecorded != Unrecorded::default() {
            state.write(|writer| writer.unrecorded(unrecorded));
        }
        if let Some(region) = state.region.clone() {
            state.write(|writer| writer.region(region.result()));
        }
        let mut cut_chunks = 0;
        state.write(|writer| {
            cut_chunks = writer.cut_chunks()?;
            Ok(())
        });
        if cut_chunks > 0 {
            report!(
                "hmtt: warning: {cut_chunks} chunks of accesses are not in the trace to their ends, because they name no block; \
                 the program has overwritten memory that it shares with hmtt"
            );
            state.finished.is_lost = true;
        }
        let Losses { dropped, cut_threads } = state.losses;
        if let Some(Err(error)) = state.writer.take().map(|one| one.finish(dropped, cut_threads)) {
            state.error = Some(error);
        }
        if let Some(source) = state.error.take() {
            let error = TagError::Output { path: self.path.clone(), source };
            report!(
                "hmtt: {}; the trace ends where this happened",
                escape::message(&chain(&error))
            );
            state.finished.has_failed = true;
        }
        std::mem::take(&mut state.finished)
    }
}

impl Outputs {
    /// Begins or continues the trace, as
    /// [`Observer::begin`](hmtt_translator::control::Observer::begin).
    pub fn begin(&mut self) -> Result<Output, TagError> {
        let mut state = lock(&self.state);
        if let Some((created, new_file)) = self.created.take() {
            new_file.keep();
            let options = WriterOptions { is_chosen: self.is_chosen, threads: encoders() };
            let file = CountedFile::new(created.file, &state.progress);
            match Writer::begin(BufWriter::new(file), options) {
                Ok(writer) => state.writer = Some(writer),
                Err(error) => state.error = Some(error),
            }
            // The region is also written at the begin, so that readers of an incomplete file know
            // it.
            if let Some(region) = state.region.clone() {
                state.write(|writer| writer.region(region.result()));
            }
        } else {
            if let Some(since) = state.native_since.take() {
                state.write(|writer| writer.resume(since.elapsed()));
            }
            if state.writer.is_none() {
                let source = io::Error::other("nothing more can be written");
                return Err(TagError::Output { path: self.path.clone(), source });
            }
        }
        let state = self.state.clone();
        Ok(Box::new(move |outcome| finish(&outcome, &mut lock(&state))))
    }

    /// A sink that writes to this file.
    pub fn accesses(&self) -> Box<dyn AccessSink> {
        Box::new(FileSink { state: self.state.clone() })
    }
}

/// Warns of what is missing in the trace of a program that has ended.
fn finish(outcome: &Outcome, state: &mut State) {
    let (missing, unrecorded) = match &state.region {
        Some(region) => (region.missing(outcome), region.unrecorded(outcome)),
        None => (outcome.missing_accesses(), outcome.unrecorded()),
    };
    state.progress.clear();
    missing.iter().for_each(|what| report!("hmtt: warning: {what}"));
    state.finished.is_lost |= !missing.is_empty();
    state.unrecorded.add(unrecorded);
}

/// Number of threads that encode chunks. These threads may use all CPUs, because the program waits
/// for them and uses fewer CPUs.
fn encoders() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(MOST_ENCODERS))
}

/// A sink that writes to the file.
struct FileSink {
    state: Arc<Mutex<State>>,
}

impl AccessSink for FileSink {
    fn functions(&mut self, functions: &[Function]) {
        lock(&self.state).write(|writer| writer.functions(functions));
    }

    fn blocks(&mut self, blocks: &[BlockAccesses]) {
        lock(&self.state).write(|writer| writer.blocks(blocks));
    }

    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8> {
        let mut state = lock(&self.state);
        state.write(|writer| writer.units(thread.cast_unsigned(), words));
        state.progress.show();
        state.writer.as_mut().map(Writer::take_memory).unwrap_or_default()
    }

    fn finish(&mut self, losses: Losses) {
        let mut state = lock(&self.state);
        state.losses.dropped = state.losses.dropped.saturating_add(losses.dropped);
        state.losses.cut_threads += losses.cut_threads;
    }
}
