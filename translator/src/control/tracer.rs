//! Handles the events that ptrace reports about the threads of a process, and moves the threads
//! into the cache and out of it.

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

/// Maximum number of blocks that are translated for one request.
const BATCH: usize = 32;

/// The CPU on which the monitor of a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorCpu {
    /// The kernel chooses the CPU.
    Any,
    /// A CPU that shares no core with the process, if there is one.
    Chosen,
    /// This CPU.
    Fixed(usize),
}

/// Options of following processes.
#[derive(Clone, Debug)]
pub struct Options {
    /// What generated code does in addition to what the program does.
    pub instrument: Instrument,
    /// Whether threads drop block numbers when their ring is full, instead of waiting.
    pub drops: bool,
    /// Which kinds of counts are recorded.
    pub recording: Recording,
    /// Signals to the controller, which are blocked, that end the following of processes.
    pub signals: SigSet,
    /// How long the first process is followed; `None`: until it ends or a signal arrives.
    pub at_most: Option<Duration>,
    /// Called each second with the program's progress.
    pub progress: Option<fn(&Progress)>,
    /// Whether children, and programs that processes execute, are followed too.
    pub follow: bool,
    /// The CPU on which monitors run.
    pub cpu: MonitorCpu,
    /// Where lists of executed blocks are kept for the next run; `None` if they are not kept.
    pub lists: Option<Arc<BlockLists>>,
    /// Functions whose accesses are recorded; `None` for all.
    pub selected: Option<Arc<Selection>>,
    /// How many of the accesses of each function are recorded, if functions differ.
    pub extents: Option<Arc<Extents>>,
    /// Whether the result contains symbols of the code cache for perf(1).
    pub perf_map: bool,
}

/// State of following one process.
pub(super) struct Tracer {
    pub process: Process,
    pub shared: Arc<Shared>,
    /// Whether `r15` is the ring's pointer while a thread is in the cache.
    pub has_rings: bool,
    /// Whether blocks record their accesses.
    pub records_accesses: bool,
    pub threads: BTreeMap<Pid, Thread>,
    /// First stops of new threads that wait for an area.
    pub waiting: VecDeque<Status>,
    /// Threads whose signals are deferred.
    pub deferrals: BTreeMap<Pid, Deferral>,
    /// Threads and processes that were started while signals were deferred, each with the signal
    /// mask that it is to get.
    pub started: Vec<(Pid, u64)>,
    /// Events that were received while another thread was handled.
    pub pending: VecDeque<Status>,
    /// Channel to the monitor.
    pub finished: Sender<Finished>,
    /// Number of interruptions of blocks, by block number and number of executed instructions.
    pub interrupted: BTreeMap<(u32, u16), u64>,
    /// Counts of threads, children and signals.
    pub seen: Profile,
    /// Why the process is to be left; `None` if it is not.
    pub left: Option<&'static str>,
    pub ending: Option<Ending>,
    /// Memory in the process that must be unmapped at the end.
    pub mapped: MappedMemory,
}

/// Shares memory with a stopped process, and prepares a cache for it. `near`: an address of its
/// code. `files`: files that are open for other processes.
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

/// Results of the tracer of a process.
pub(super) struct Seen {
    /// Counts of threads, children and signals.
    pub seen: Profile,
    /// Number of interruptions of blocks, by block number and number of executed instructions.
    pub interrupted: BTreeMap<(u32, u16), u64>,
    /// Why the controller has detached although nobody asked it to; `None` if it has not.
    pub left: Option<&'static str>,
}

/// Path of the program of a process, for messages.
pub fn program(pid: Pid) -> PathBuf {
    std::fs::read_link(format!("/proc/{}/exe", live_thread(pid)))
        .unwrap_or_else(|_| "a program".into())
}

impl Tracer {
    /// A tracer without threads. `finished`: channel to the monitor.
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

    /// The results, when the process is no longer followed. The channel to the monitor is dropped,
    /// so that the monitor ends.
    pub fn seen(self) -> Seen {
        let Tracer { seen, interrupted, left, .. } = self;
        Seen { seen, interrupted, left }
    }
}

/// Ignores the error that a thread has ended while its event was handled. The kernel reports its
/// end later.
pub(super) fn unless_ended(result: Result<(), ControlError>) -> Result<(), ControlError> {
    match result {
        Err(ControlError::Ptrace(PtraceError::Ended(_))) => Ok(()),
        other => other,
    }
}
