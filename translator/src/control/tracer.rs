//! The tracer: handles what ptrace reports about the threads of a process, and moves them into the
//! cache and out of it.

mod attach;
mod deferral;
mod ends;
mod events;
mod growth;
mod locking;
mod thread;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{Process, PtraceError, Status, live_thread};
use hmtt_probe::selection::Selection;
use nix::sys::signal::SigSet;
use nix::unistd::Pid;

use super::code::ProcessCode;
use super::error::ControlError;
use super::extents::Extents;
use super::growth::MappedMemory;
use super::progress::Progress;
use super::translator::Translation;
use super::{Shared, calls, setup};
use crate::block_lists::BlockLists;
use crate::cache::{Cache, Instrument, Settings};
use crate::layout::area;
use crate::monitor::Finished;
use crate::monitor::tally::Recording;
use crate::profile::{CodeFiles, OpenFiles, Profile};
use crate::shared::Rings;
pub use attach::check;
use deferral::Deferral;
pub use ends::Left;
use thread::Thread;

/// Most blocks that are translated for one request.
const BATCH: usize = 32;

/// On which CPU the monitor of a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorCpu {
    /// On any.
    Any,
    /// On one that shares no core with the process, as far as there is one.
    Chosen,
    /// On this one.
    Fixed(usize),
}

/// How a process is followed.
#[derive(Clone, Debug)]
pub struct Options {
    /// What generated code does besides what the program does.
    pub instrument: Instrument,
    /// Whether threads drop block numbers when their ring is full, instead of waiting.
    pub drops: bool,
    /// What is counted.
    pub recording: Recording,
    /// Signals to the controller, which are blocked, that end following.
    pub signals: SigSet,
    /// For how long the first process is followed; `None` until it ends or a signal arrives.
    pub at_most: Option<Duration>,
    /// Is called each second with the program's progress.
    pub progress: Option<fn(&Progress)>,
    /// Whether children, and programs that processes execute, are followed too.
    pub follow: bool,
    /// On which CPU monitors run.
    pub cpu: MonitorCpu,
    /// Where lists of executed blocks are kept for the next run, if they are.
    pub lists: Option<Arc<BlockLists>>,
    /// Functions whose accesses are recorded; `None` for all.
    pub selected: Option<Arc<Selection>>,
    /// How much is recorded of the accesses of functions, if it differs among them.
    pub extents: Option<Arc<Extents>>,
    /// Whether the results have symbols of the code cache, as perf(1) reads them.
    pub perf_map: bool,
}

/// State of following a process.
pub(super) struct Tracer {
    pub process: Process,
    pub shared: Arc<Shared>,
    /// Whether `r15` is the ring's pointer in the cache.
    pub has_rings: bool,
    /// Whether blocks record their accesses.
    pub records_accesses: bool,
    pub threads: BTreeMap<Pid, Thread>,
    /// New threads that wait for an area, at their first stops.
    pub waiting: VecDeque<Status>,
    /// Threads whose signals are deferred.
    pub deferrals: BTreeMap<Pid, Deferral>,
    /// Threads and processes that were started while signals were deferred, with the signal mask
    /// that they are to have.
    pub started: Vec<(Pid, u64)>,
    /// Events that were received while other threads were handled.
    pub pending: VecDeque<Status>,
    /// For the monitor.
    pub finished: Sender<Finished>,
    /// Blocks that were interrupted: number, executed instructions, and how often.
    pub interrupted: BTreeMap<(u32, u16), u64>,
    /// Counts of threads, children and signals.
    pub seen: Profile,
    /// Why the process is to be left.
    pub left: Option<&'static str>,
    pub ending: Option<Ending>,
    /// Memory in the process that is unmapped at the end.
    pub mapped: MappedMemory,
}

/// Shares memory with a stopped process, and prepares a cache for it. `near`: an address of its
/// code. `files`: those that are open for other processes.
pub(super) fn prepare(
    process: &mut Process,
    near: RunAddr,
    options: &Options,
    files: &OpenFiles,
) -> Result<(Arc<Shared>, MappedMemory), ControlError> {
    let files = CodeFiles::new(process.pid, files.clone());
    let when_full = if options.drops { area::DROP } else { area::WAIT };
    let mut memory = setup::share(&mut process.stopped()?, near, when_full, options.perf_map)?;
    memory.code.set_calls(calls::asked());
    let failed = |source| ControlError::System { operation: "read the program's memory", source };
    let (selected, extents) = (options.selected.clone(), options.extents.clone());
    let code = ProcessCode::open(process.pid, files, options.lists.clone(), selected, extents);
    let code = code.map_err(failed)?;
    let settings = Settings { table: memory.table, instrument: options.instrument, batch: BATCH };
    let cache = Cache::new(memory.code, settings, near)?;
    let rings = Arc::new(Rings::new(memory.areas));
    Ok((Arc::new(Shared::new(rings, Translation::new(cache, code))), memory.mapped))
}

/// What the tracer of a process knows at the end.
pub(super) struct Seen {
    /// Counts of threads, children and signals.
    pub seen: Profile,
    /// Blocks that were interrupted: number, executed instructions, and how often.
    pub interrupted: BTreeMap<(u32, u16), u64>,
    /// Why the controller has detached without being asked.
    pub left: Option<&'static str>,
}

/// The program of a process, for messages.
pub fn program(pid: Pid) -> PathBuf {
    std::fs::read_link(format!("/proc/{}/exe", live_thread(pid)))
        .unwrap_or_else(|_| "a program".into())
}

impl Tracer {
    /// A tracer without threads. `finished`: where the monitor receives messages.
    pub fn new(
        process: Process,
        shared: Arc<Shared>,
        mapped: MappedMemory,
        options: &Options,
        finished: Sender<Finished>,
    ) -> Self {
        let (pid, program) = (process.pid, program(process.pid));
        Tracer {
            process,
            shared,
            has_rings: options.instrument.has_ring(),
            records_accesses: options.instrument.choice().is_some(),
            threads: BTreeMap::new(),
            waiting: VecDeque::new(),
            deferrals: BTreeMap::new(),
            started: Vec::new(),
            pending: VecDeque::new(),
            finished,
            interrupted: BTreeMap::new(),
            seen: Profile { program, process: pid.as_raw(), ..Profile::default() },
            left: None,
            ending: None,
            mapped,
        }
    }

    /// What it knows when the process is no longer followed. The monitor then ends too.
    pub fn seen(self) -> Seen {
        let Tracer { seen, interrupted, left, .. } = self;
        Seen { seen, interrupted, left }
    }
}

/// Ignores that a thread has ended while its event was handled: its end is reported later.
pub(super) fn unless_ended(result: Result<(), ControlError>) -> Result<(), ControlError> {
    match result {
        Err(ControlError::Ptrace(PtraceError::Ended(_))) => Ok(()),
        other => other,
    }
}
