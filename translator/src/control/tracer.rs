//! The tracer: handles what ptrace reports about the threads of a process, and moves them into the cache and out of it.

mod attach;
mod ends;
mod events;
mod thread;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{Ending, clock};
use hmtt_probe::ptrace::{Process, PtraceError, Status, wait, wait_for_signal};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::code::ProcessCode;
use super::error::ControlError;
use super::progress::{self, Progress};
use super::translator::{Translation, serve};
use super::{Outcome, Shared, calls, setup};
use crate::cache::{Cache, Instrument, Settings};
use crate::layout::{area, lookup};
use crate::monitor::code::BlockCode;
use crate::monitor::progress::Snapshots;
use crate::monitor::tally::Recording;
use crate::monitor::{Counts, Finished, watch};
use crate::profile::{BlockCount, NativeCode, Profile};
use crate::shared::Rings;
pub use attach::attach;
use thread::Thread;

/// Most events that are handled before signals to the controller are checked.
const EVENTS: usize = 64;
/// How often threads are checked when no signal reports an event.
const TICK: Duration = Duration::from_millis(20);
/// Most blocks that are translated for one request.
const BATCH: usize = 32;
/// `cs` of 64-bit code.
const CS: u64 = 0x33;

/// How a process is followed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What generated code does besides what the program does.
    pub instrument: Instrument,
    /// Whether threads drop block numbers when their ring is full, instead of waiting.
    pub drops: bool,
    /// What is counted.
    pub recording: Recording,
    /// Signals to the controller, which are blocked, that end following.
    pub signals: SigSet,
    /// Is called each second with the program's progress.
    pub progress: Option<fn(&Progress)>,
}

/// State of following a process.
pub(super) struct Tracer {
    pub process: Process,
    pub shared: Arc<Shared>,
    /// Whether the process is followed from its first instruction on.
    pub is_from_start: bool,
    /// Whether `r15` is the ring's pointer in the cache.
    pub has_rings: bool,
    pub threads: BTreeMap<Pid, Thread>,
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
    pub mapped: Mapped,
}

/// Runs a process that was just started and has not executed an instruction, until it ends or a signal to the controller
/// arrives.
///
/// # Errors
/// [`ControlError`] if the process cannot be followed. It is stopped or runs natively.
pub fn run(mut process: Process, options: &Options) -> Result<Outcome, ControlError> {
    process.check_filters()?;
    let pid = process.pid;
    let stopped = process.stopped()?;
    let registers = stopped.registers(pid)?;
    if registers.cs != CS {
        return Err(ControlError::Bits32);
    }
    let entry = RunAddr(registers.rip);
    let (shared, mapped) = prepare(&mut process, entry, options)?;
    let (tracer, received) = Tracer::new(process, shared, mapped, options);
    let tracer = Tracer { is_from_start: true, ..tracer };
    follow(tracer, options, received, Tracer::start)
}

/// Memory in a process that is unmapped at the end.
type Mapped = Vec<(RunAddr, u64)>;

/// Shares memory with a stopped process, and prepares a cache for it. `near`: an address of its code.
fn prepare(
    process: &mut Process,
    near: RunAddr,
    options: &Options,
) -> Result<(Arc<Shared>, Mapped), ControlError> {
    let when_full = if options.drops { area::DROP } else { area::WAIT };
    let mut memory = setup::share(&mut process.stopped()?, near, when_full)?;
    for (low, is_asked) in calls::asked().into_iter().enumerate() {
        memory.code.set_call(low as u8, if is_asked { lookup::ASKED } else { lookup::AT_ONCE });
    }
    let failed = |source| ControlError::System { operation: "read the program's memory", source };
    let code = ProcessCode::open(process.pid).map_err(failed)?;
    let settings = Settings { table: memory.table, instrument: options.instrument, batch: BATCH };
    let cache = Cache::new(memory.code, settings, near)?;
    let rings = Arc::new(Rings::new(memory.areas));
    Ok((Arc::new(Shared::new(rings, Translation::new(cache, code))), memory.mapped))
}

/// Follows the process with the help of the other two threads. `start`: lets its threads continue.
fn follow(
    tracer: Tracer,
    options: &Options,
    received: Receiver<Finished>,
    start: impl FnOnce(&mut Tracer) -> Result<(), ControlError>,
) -> Result<Outcome, ControlError> {
    let shared = tracer.shared.clone();
    let (ready, started) = channel();
    let translator_shared = shared.clone();
    let translator = std::thread::spawn(move || {
        serve(&translator_shared, || {
            let _ = ready.send(());
        });
    });
    // Nothing waits for this thread, which may wait for a terminal.
    let snapshots = options.progress.map(|print| {
        let (to, from) = sync_channel(1);
        let shared = shared.clone();
        std::thread::spawn(move || progress::report(&shared, &from, print));
        Snapshots::new(to)
    });
    let (monitor_shared, recording) = (shared.clone(), options.recording);
    let monitor = std::thread::spawn(move || {
        watch(&monitor_shared.rings, &received, recording, &*monitor_shared, snapshots)
    });
    // An error means that the translator has ended: the process then runs natively.
    let _ = started.recv();
    let begin = clock::pair();
    let followed = events(tracer, options, start);
    shared.end();
    let counts = monitor.join().unwrap_or_default();
    let _ = translator.join();
    let Followed { mut seen, interrupted, ending, left } = followed?;
    seen.tsc_hz = clock::rate(&begin, &clock::pair());
    let profile = profile(&shared.translation(), counts, &interrupted, seen);
    Ok(Outcome { profile, ending, left })
}

/// What the tracer knows at the end.
struct Followed {
    seen: Profile,
    interrupted: BTreeMap<(u32, u16), u64>,
    ending: Ending,
    left: Option<&'static str>,
}

/// Handles events until the process has ended, or is left.
fn events(
    mut tracer: Tracer,
    options: &Options,
    start: impl FnOnce(&mut Tracer) -> Result<(), ControlError>,
) -> Result<Followed, ControlError> {
    let followed = start(&mut tracer).and_then(|()| tracer.follow(&options.signals));
    let ending = match (followed, tracer.ending) {
        (_, Some(ending)) => ending,
        (Ok(()), None) => tracer.leave()?,
        (Err(error), None) => {
            // The process goes on natively, as far as that is possible.
            let _ = tracer.leave();
            return Err(error);
        }
    };
    let Tracer { seen, interrupted, left, .. } = tracer;
    Ok(Followed { seen, interrupted, ending, left })
}

impl Tracer {
    /// A tracer without threads. Also returns where the monitor receives messages.
    fn new(
        process: Process,
        shared: Arc<Shared>,
        mapped: Mapped,
        options: &Options,
    ) -> (Self, Receiver<Finished>) {
        let (finished, received) = channel();
        let tracer = Tracer {
            process,
            shared,
            is_from_start: false,
            has_rings: options.instrument == Instrument::Ring,
            threads: BTreeMap::new(),
            pending: VecDeque::new(),
            finished,
            interrupted: BTreeMap::new(),
            seen: Profile::default(),
            left: None,
            ending: None,
            mapped,
        };
        (tracer, received)
    }

    /// Handles events until the process has ended, or is to be left.
    fn follow(&mut self, signals: &SigSet) -> Result<(), ControlError> {
        let mut waited = *signals;
        waited.add(Signal::SIGCHLD);
        loop {
            let mut is_all = false;
            for _ in 0..EVENTS {
                let Some(status) = self.next_event()? else {
                    is_all = true;
                    break;
                };
                unless_ended(self.handle(status))?;
                if self.ending.is_some() || self.left.is_some() {
                    return Ok(());
                }
            }
            self.serve_requests()?;
            let at_most = if is_all { TICK } else { Duration::ZERO };
            let signal = wait_for_signal(&waited, at_most)
                .map_err(PtraceError::new(self.process.pid, "wait"))?;
            if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
                return Ok(());
            }
        }
    }

    fn next_event(&mut self) -> Result<Option<Status>, PtraceError> {
        if let Some(status) = self.pending.pop_front() {
            return Ok(Some(status));
        }
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        match wait(None, flags) {
            Ok(Status::StillAlive) | Err(Errno::EINTR) => Ok(None),
            Err(Errno::ECHILD) => {
                self.ending = self.ending.or(Some(Ending::Detached));
                Ok(None)
            }
            status => status.map(Some).map_err(PtraceError::new(self.process.pid, "wait")),
        }
    }
}

/// Ignores that a thread has ended while its event was handled: its end is reported later.
pub(super) fn unless_ended(result: Result<(), ControlError>) -> Result<(), ControlError> {
    match result {
        Err(ControlError::Ptrace(PtraceError::Ended(_))) => Ok(()),
        other => other,
    }
}

/// Puts together what all threads of the controller have found.
fn profile(
    translation: &Translation,
    counts: Counts,
    interrupted: &BTreeMap<(u32, u16), u64>,
    seen: Profile,
) -> Profile {
    let Counts { counted, dropped, cut_threads } = counts;
    let executed = counted.blocks.iter().enumerate().filter(|(_, one)| one.executions > 0);
    let blocks = executed.filter_map(|(number, tally)| {
        let number = number as u32;
        let (block, files) = translation.block(number)?;
        let code = BlockCode::new(block.start, &block.bytes);
        let instructions = code.instructions;
        let parts = interrupted.range((number, 0)..=(number, u16::MAX));
        let unexecuted = parts
            .map(|((_, done), times)| (instructions - u64::from(*done).min(instructions)) * times);
        let contains =
            |one: &&hmtt_probe::ptrace::Mapping| (one.start..one.end).contains(&block.start);
        Some(BlockCount {
            number,
            code,
            bytes: block.bytes.clone(),
            tally: *tally,
            unexecuted: unexecuted.sum(),
            modelled: counted.models.blocks.get(number as usize).copied().unwrap_or_default(),
            mapping: files.iter().find(contains).cloned(),
        })
    });
    let native = translation.native().iter();
    let native =
        native.map(|((at, why), times)| NativeCode { at: *at, why: why.clone(), times: *times });
    let mut calls = counted.calls;
    calls.merge(&seen.calls);
    Profile {
        blocks: blocks.collect(),
        native: native.collect(),
        edges: counted.edges,
        unbalanced: counted.unbalanced,
        superblocks: counted.superblocks,
        calls,
        models: counted.models,
        intervals: counted.intervals,
        dropped,
        invalid: counted.invalid,
        cut_threads,
        ..seen
    }
}
