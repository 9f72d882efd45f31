//! Runs processes from code caches: shares memory with each process, translates blocks on request,
//! and follows the threads of the process.
//!
//! One thread of the controller, which has started the first process, traces all processes
//! (`processes`). It passes each event of ptrace to the **tracer** of the process (`tracer`), which
//! moves threads between the original code and the cache. For each process the controller starts
//! further threads (`workers`), which share their state with the process's tracer (`Shared`). The
//! **translator** (`translator`) answers threads that wait in the cache for a block. The
//! **monitor** ([`crate::monitor`]) reads the rings, and builds superblocks if that is requested. A
//! third thread (`progress`) reports what the monitor has read, if that is requested. One more
//! thread completes and writes the profiles of all processes.
//!
//! A thread of the process is either in the cache or native. A native thread executes original
//! code, and stops at each system call; after the call it enters the cache again. System calls that
//! start threads or processes, return from signal handlers, execute programs or change code are
//! made natively.
//!
//! Invariant: native threads, signal frames, new threads and children have original registers. A
//! thread in the cache needs the controller only for blocks that are not translated. Without a
//! controller the thread continues in original code at such a block.

mod calls;
mod code;
mod cpus;
mod described;
mod error;
mod expected;
mod extents;
mod gaps;
mod growth;
mod memory;
mod numbers;
mod original;
mod perf_map;
mod processes;
mod progress;
mod sequences;
mod setup;
mod signals;
mod stopping;
mod tracer;
mod translator;
mod workers;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hmtt_files::access_trace::{Continuation, Unrecorded};
use hmtt_probe::control::Ending;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub use code::Files;
pub use cpus::check as check_cpu;
pub use error::ControlError;
pub use extents::{Extents, FunctionKey};
pub use processes::{FirstEnd, Left, Observer, Output, attach, processor_time, run};
pub use progress::Progress;
pub use tracer::{MonitorCpu, Options};
use translator::Translation;

use crate::layout::header;
use crate::profile::Profile;
use crate::shared::{Rings, THREADS, wake};

/// The result of following a process.
#[derive(Debug)]
pub struct Outcome {
    /// What the process has executed, as counts.
    pub profile: Profile,
    /// How the process ended.
    pub ending: Ending,
    /// Why the controller has detached although nobody asked it to; `None` if it has not.
    pub left: Option<&'static str>,
    /// Symbols of the code cache, one on a line: address and size in hexadecimal, and name. `None`
    /// if they were not requested.
    pub perf_map: Option<String>,
}

impl Outcome {
    /// Counts of what ran natively without a request.
    pub fn unrecorded(&self) -> Unrecorded {
        let Outcome { profile, left, ending, .. } = self;
        let continuation = match (ending, left) {
            (Ending::Replaced, _) => Continuation::Replaced,
            (_, Some(_)) => Continuation::Natively,
            _ => Continuation::None,
        };
        Unrecorded {
            native_code: profile.native.iter().map(|one| one.used.times).sum(),
            native_threads: u32::try_from(profile.native_threads).unwrap_or(u32::MAX),
            children: profile.children,
            continuation,
        }
    }

    /// Describes what is missing from a record of all accesses, one sentence for each reason; empty
    /// if nothing is missing.
    pub fn missing_accesses(&self) -> Vec<String> {
        let Outcome { profile, left, .. } = self;
        let mut unrecorded = self.unrecorded();
        let mut messages = Vec::new();
        if let Some(why) = left {
            unrecorded.continuation = Continuation::None;
            messages
                .push(format!("the program was followed only until {why}; it goes on natively"));
        }
        messages.extend(unrecorded.missing());
        if profile.dropped > 0 {
            let words = profile.dropped;
            messages
                .push(format!("{words} words about accesses were dropped because rings were full"));
        }
        if profile.cut_threads > 0 {
            let threads = profile.cut_threads;
            messages.push(format!("the last accesses of {threads} threads are missing"));
        }
        messages
    }
}

/// A request of the translator: a waiting thread is to become native.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Number of the thread's area.
    area: usize,
    /// Whether the thread is about to make a system call.
    is_call: bool,
}

/// State that the threads of the controller share for one process.
struct Shared {
    /// Memory of the threads of the process.
    rings: Arc<Rings>,
    /// The cache and the original code.
    translation: Mutex<Translation>,
    /// For each area: whether its thread waits for the tracer.
    handed_over: [AtomicBool; THREADS],
    /// For each area: whether its thread has deferred signals, and so makes no system call.
    defers: [AtomicBool; THREADS],
    requests: Mutex<VecDeque<Request>>,
    /// Whether the process is no longer followed.
    is_over: AtomicBool,
    /// Whether the process is to be left, because everything that was to be recorded is recorded.
    is_to_be_left: AtomicBool,
}

impl Shared {
    fn new(rings: Arc<Rings>, translation: Translation) -> Self {
        Shared {
            rings,
            translation: Mutex::new(translation),
            handed_over: [const { AtomicBool::new(false) }; THREADS],
            defers: [const { AtomicBool::new(false) }; THREADS],
            requests: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_to_be_left: AtomicBool::new(false),
        }
    }

    /// Locks the cache. Only the owner of this lock answers a request or moves a waiting thread.
    fn translation(&self) -> MutexGuard<'_, Translation> {
        self.translation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the translator, because the process is no longer followed.
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let requests = self.rings.areas.header(header::REQUESTS);
        requests.fetch_add(1, Ordering::SeqCst);
        wake(requests);
    }

    /// Asks the tracer to leave the process. The tracer waits for SIGCHLD, so this signal wakes it.
    fn leave(&self) {
        self.is_to_be_left.store(true, Ordering::SeqCst);
        let _ = kill(Pid::this(), Signal::SIGCHLD);
    }

    fn is_to_be_left(&self) -> bool {
        self.is_to_be_left.load(Ordering::SeqCst)
    }

    /// Removes the next request from the queue.
    fn next_request(&self) -> Option<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Hands a waiting thread over to the tracer, which SIGCHLD wakes.
    fn hand_over(&self, request: Request) {
        self.handed_over[request.area].store(true, Ordering::SeqCst);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push_back(request);
        let _ = kill(Pid::this(), Signal::SIGCHLD);
    }
}
