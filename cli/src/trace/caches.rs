//! Simulates data caches with the accesses of a program while the program runs.
//!
//! The model runs on the monitor's thread, with the units that the threads of the program write.
//! All threads share the caches, in the order in which the monitor reads their rings. Addresses are
//! virtual.

mod code;
mod model;
mod report;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hmtt::cache::CacheConfiguration;
use hmtt::cache::places::{self, PlacedCache};
use hmtt_files::access_trace::{BlockAccesses, Function, Unrecorded};
use hmtt_format::escape;
use hmtt_probe::control::TagError;
use hmtt_translator::control::{ControlError, Observer, Outcome, Output};
use hmtt_translator::monitor::Losses;
use hmtt_translator::monitor::accesses::AccessSink;
use nix::unistd::Pid;

use super::budget::{Counter, CountingSink};
use super::outputs::Outputs;
use super::region::Region;
use crate::monitor::Finished;
use crate::tag::files::{Created, NewFiles};
use crate::tag::warnings::{chain, shown, warn_of_leak_detector};
use code::Code;
use model::Model;

/// Value of the option `--cache` that selects the default caches.
pub const DESKTOP: &str = "desktop";

#[derive(clap::Args)]
pub struct CacheOptions {
    /// Simulate data caches and print their counts at the end: `desktop`, the default, or one
    /// cache, as l1=32K,8,64,lru: its level, size, ways, size of a line, replacement; once for each
    ///
    /// Levels are l1 to l4. The replacement is lru, tree-plru, random or random:SEED; `,inclusive`
    /// at the end removes what the cache evicts from those before it. The default is
    /// l1=32K,8,64,lru l2=256K,8,64,lru l3=8M,16,64,lru.
    #[arg(long, value_name = "CACHE", num_args = 0..=1, default_missing_value = DESKTOP)]
    cache: Vec<CacheArgument>,
    /// Also write the counts of the caches as JSON to this file
    #[arg(long, value_name = "FILE", requires = "cache")]
    cache_json: Option<PathBuf>,
}

/// A value of the option `--cache`.
#[derive(Clone, Copy)]
pub enum CacheArgument {
    Desktop,
    One(PlacedCache),
}

impl std::str::FromStr for CacheArgument {
    type Err = places::PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == DESKTOP { Ok(Self::Desktop) } else { text.parse().map(Self::One) }
    }
}

/// Parses the values of `--cache` into levels of caches; `None` without values.
pub fn levels(arguments: &[CacheArgument]) -> Result<Option<Vec<CacheConfiguration>>> {
    let placed = |argument: &CacheArgument| match argument {
        CacheArgument::Desktop => None,
        CacheArgument::One(cache) => Some(*cache),
    };
    match arguments {
        [] => Ok(None),
        [CacheArgument::Desktop] => Ok(Some(CacheConfiguration::DESKTOP_LEVELS.to_vec())),
        list => {
            let caches: Option<Vec<PlacedCache>> = list.iter().map(placed).collect();
            let caches = caches.context("--cache desktop cannot be given with other caches")?;
            let (levels, instructions) = places::in_order(&caches).context("--cache")?;
            ensure!(instructions.is_none(), "--cache i1: only accesses to data are recorded");
            Ok(Some(levels))
        }
    }
}

impl CacheOptions {
    /// Whether the user wants caches to be simulated.
    pub fn are_wanted(&self) -> bool {
        !self.cache.is_empty()
    }

    /// The path of the JSON file for the counts.
    pub fn json_file(&self) -> Option<&Path> {
        self.cache_json.as_deref()
    }

    /// Creates the caches and their output; `None` if no caches are simulated.
    pub fn prepare(&self, overwrite: bool) -> Result<Option<Caches>> {
        let Some(levels) = levels(&self.cache)? else { return Ok(None) };
        let model = Model::new(&levels)?;
        let create = |path: &PathBuf| Created::new(path, overwrite);
        let file = self.cache_json.as_ref().map(create).transpose()?;
        let new_file = file.as_ref().and_then(Created::removable).into_iter().collect();
        let new_file = Some(NewFiles::new(new_file));
        Ok(Some(Caches {
            state: Arc::new(Mutex::new(State { model, code: Code::default(), is_lost: false })),
            file,
            new_file,
        }))
    }
}

/// The simulated caches, with the code whose accesses they count.
struct State {
    model: Model,
    /// Functions of the instructions that have accesses.
    code: Code,
    /// Whether accesses are missing in the counts.
    is_lost: bool,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Simulated caches, and the output for their counts.
pub struct Caches {
    state: Arc<Mutex<State>>,
    /// JSON file for the counts.
    file: Option<Created>,
    new_file: Option<NewFiles>,
}

impl Caches {
    /// Prints the counts and writes the JSON file. Returns whether that has failed, and whether
    /// accesses are missing.
    fn finish(&self) -> Finished {
        let state = lock(&self.state);
        report!("{}", report::text(&state.model, &state.code));
        let written = self
            .file
            .as_ref()
            .map_or(Ok(()), |file| file.write(report::json(&state.model, &state.code)));
        if let Err(error) = &written {
            report!("hmtt: {}", escape::message(&chain(error)));
        }
        let mut finished = Finished::default();
        (finished.has_failed, finished.is_lost) = (written.is_err(), state.is_lost);
        finished
    }
}

/// The outputs of `hmtt trace`: a file, simulated caches, or both.
pub struct TraceOutputs {
    pub file: Option<Outputs>,
    pub caches: Option<Caches>,
    /// Counter of the costs of recording, if the slowdown is limited.
    pub counter: Option<Arc<Mutex<Counter>>>,
    /// The region that is recorded; `None` if everything is recorded.
    pub region: Option<Region>,
    /// Number of child processes that were not recorded.
    pub children: Arc<AtomicU64>,
}

impl TraceOutputs {
    /// Sets the begin of a native time that was planned; `None` if the program is recorded.
    pub fn set_native_since(&mut self, since: Option<Instant>) {
        self.file.iter_mut().for_each(|file| file.set_native_since(since));
    }

    /// Notes that the program runs natively from now on although that was not planned.
    pub fn set_lost(&mut self) {
        self.file.iter_mut().for_each(Outputs::set_lost);
    }

    /// Completes the outputs. Returns whether that has failed, and whether accesses are missing.
    pub fn finish(&mut self) -> Finished {
        let mut finished = self.file.as_mut().map(Outputs::finish).unwrap_or_default();
        if let Some(of_caches) = self.caches.as_ref().map(Caches::finish) {
            finished.has_failed |= of_caches.has_failed;
            finished.is_lost |= of_caches.is_lost;
        }
        let children = self.children.load(Ordering::SeqCst);
        if let Some(what) = (Unrecorded { children, ..Unrecorded::default() }).children_text() {
            report!("hmtt: {what}");
        }
        finished
    }
}

impl Observer for TraceOutputs {
    fn begin(&mut self, pid: Pid, _program: &Path) -> Result<Output, TagError> {
        warn_of_leak_detector(pid);
        self.region.iter().for_each(|region| region.begin(pid));
        let of_file = self.file.as_mut().map(|file| file.begin()).transpose()?;
        let state = self.caches.as_mut().map(|caches| {
            caches.new_file.take().into_iter().for_each(NewFiles::keep);
            caches.state.clone()
        });
        let (children, region) = (self.children.clone(), self.region.clone());
        Ok(Box::new(move |outcome: Outcome| {
            children.fetch_add(outcome.unrecorded().children, Ordering::SeqCst);
            let missing = match &region {
                Some(region) => region.missing(&outcome),
                None => outcome.missing_accesses(),
            };
            if let Some(state) = state {
                let mut state = lock(&state);
                state.is_lost |= !missing.is_empty();
                let State { model, code, .. } = &mut *state;
                code.resolve(model.instructions());
            }
            match of_file {
                Some(finish) => finish(outcome),
                None => missing.iter().for_each(|what| report!("hmtt: warning: {what}")),
            }
        }))
    }

    fn accesses(&mut self, _pid: Pid) -> Option<Box<dyn AccessSink>> {
        let of_file = self.file.as_ref().map(Outputs::accesses);
        if let Some(counter) = &self.counter {
            return Some(Box::new(CountingSink::new(counter.clone(), of_file)));
        }
        let inner: Option<Box<dyn AccessSink>> = match &self.caches {
            None => of_file,
            Some(caches) => Some(Box::new(CacheSink { state: caches.state.clone(), of_file })),
        };
        match &self.region {
            Some(region) => Some(region.sink(inner)),
            None => inner,
        }
    }

    fn not_followed(&mut self, pid: Pid, program: &Path, error: &ControlError) {
        let (program, why) = (shown(program), chain(error));
        let why = escape::message(&why);
        report!("hmtt: warning: process {pid}, {program}, continues natively: {why}");
        self.file.iter_mut().for_each(Outputs::set_lost);
        self.caches.iter().for_each(|caches| lock(&caches.state).is_lost = true);
    }
}

/// A sink that makes a program's accesses in the caches, and passes them on to the file.
struct CacheSink {
    state: Arc<Mutex<State>>,
    of_file: Option<Box<dyn AccessSink>>,
}

impl AccessSink for CacheSink {
    fn functions(&mut self, functions: &[Function]) {
        lock(&self.state).code.add_functions(functions);
        self.of_file.iter_mut().for_each(|file| file.functions(functions));
    }

    fn blocks(&mut self, blocks: &[BlockAccesses]) {
        {
            let mut state = lock(&self.state);
            state.model.add_blocks(blocks);
            state.code.add_blocks(blocks);
        }
        self.of_file.iter_mut().for_each(|file| file.blocks(blocks));
    }

    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8> {
        lock(&self.state).model.units(thread.cast_unsigned(), &words);
        match &mut self.of_file {
            Some(file) => file.words(thread, words),
            None => words,
        }
    }

    fn finish(&mut self, losses: Losses) {
        self.of_file.iter_mut().for_each(|file| file.finish(losses));
        let mut state = lock(&self.state);
        let invalid = state.model.invalid_chunks();
        if invalid > 0 {
            report!("hmtt: warning: {invalid} chunks of accesses name no block, and are missing");
            state.is_lost = true;
        }
    }
}
