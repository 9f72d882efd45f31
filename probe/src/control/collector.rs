//! Collects what tags write. An [`Output`] is chosen once, before the process is tagged.

use std::ops::Range;

use nix::unistd::Pid;

use super::TagError;
use super::shared::counts::{Counts, ThreadCounts};
use super::shared::log::{Log, LogOutput};
use super::shared::slots::Slots;
use super::shared::window::{CardWindow, Window};
use super::shared::{InheritedMemory, Shared, SlotLayout};
use crate::address::RunAddr;
use crate::ptrace::{Stopped, StoppedThread};
use crate::stubs::Sink;

/// Destination of what tags write.
#[derive(Debug)]
pub enum Output {
    /// Tags write nothing: this measures the cost of the jumps.
    None,
    /// Counters.
    Counts,
    /// A log file, through buffers.
    Log(LogOutput),
    /// A memory window that a card watches.
    Card(CardWindow),
}

impl Output {
    /// Whether the number of calls of each function can be read while the process runs.
    pub fn counts_calls(&self) -> bool {
        matches!(self, Output::Counts | Output::Log(_))
    }

    /// The code that tags contain.
    pub fn sink(&self) -> Sink {
        match self {
            Output::None => Sink::None,
            Output::Counts => Sink::Count,
            Output::Log(log) => Sink::Log(log.shape),
            Output::Card(_) => Sink::Card,
        }
    }
}

/// State of the chosen output.
#[derive(Debug)]
pub(super) enum Collector {
    None(Shared),
    Counts(Counts),
    Log(Log),
    Card(Window, Shared),
}

impl Collector {
    /// Prepares for `functions` functions now, and for at most `max_functions` in the future.
    pub fn new(
        process: &mut Stopped<'_>,
        inherited: Option<InheritedMemory>,
        output: Output,
        (functions, max_functions): (usize, usize),
    ) -> Result<Self, TagError> {
        let nothing = |process: &mut Stopped<'_>| {
            Shared::new(process, inherited, SlotLayout::NONE, max_functions)
        };
        Ok(match output {
            Output::None => Collector::None(nothing(process)?),
            Output::Counts => Collector::Counts(Counts::new(process, inherited, max_functions)?),
            Output::Log(log) => Collector::Log(Log::new(process, inherited, log, max_functions)?),
            Output::Card(window) => {
                let events = 2 * functions as u64;
                let shared = nothing(process)?;
                Collector::Card(Window::new(process, &shared, &window, events)?, shared)
            }
        })
    }

    /// Prepares for more functions.
    pub fn add(&mut self, functions: usize) -> Result<(), TagError> {
        match self {
            Collector::None(_) => Ok(()),
            Collector::Log(log) => {
                log.add(functions);
                Ok(())
            }
            Collector::Counts(counts) => counts.add(functions),
            Collector::Card(window, _) => window.add(2 * functions as u64),
        }
    }

    /// Address range of the memory in the process that threads write to.
    pub fn memory(&self) -> Range<RunAddr> {
        let shared = self.shared();
        shared.start..shared.start + shared.bytes
    }

    /// The memory shared with the process. Every output has such memory.
    pub fn shared(&self) -> &Shared {
        match self {
            Collector::None(shared) | Collector::Card(_, shared) => shared,
            Collector::Counts(counts) => counts.shared(),
            Collector::Log(log) => log.shared(),
        }
    }

    /// Sets `gs` of a stopped thread to the address that its tags write to.
    pub fn add_thread(&mut self, thread: StoppedThread<'_>) -> Result<(), TagError> {
        match self {
            Collector::None(_) => Ok(()),
            Collector::Counts(counts) => counts.slots.add_thread(thread).map(drop),
            Collector::Log(log) => log.add_thread(thread),
            Collector::Card(window, _) => window.add_thread(thread),
        }
    }

    /// Whether a thread has been prepared by [`add_thread`](Self::add_thread).
    pub fn has_thread(&self, thread: Pid) -> bool {
        match self {
            Collector::None(_) => true,
            Collector::Card(window, _) => window.has_thread(thread),
            _ => self.slots().is_some_and(|slots| slots.has_thread(thread)),
        }
    }

    /// Threads that have a slot in the shared memory.
    pub fn threads(&self) -> Vec<Pid> {
        self.slots()
            .map(|slots| slots.iter().map(|(thread, _)| thread).collect())
            .unwrap_or_default()
    }

    /// Whether tags of a thread with this `gs` write to memory of this output. A new thread
    /// inherits the `gs` of the thread that started it.
    pub fn owns(&self, gs: RunAddr) -> bool {
        match self {
            Collector::None(_) => true,
            Collector::Counts(counts) => counts.shared().contains(gs),
            Collector::Log(log) => log.shared().contains(gs),
            Collector::Card(window, _) => window.is_at(gs),
        }
    }

    /// Allows or forbids system calls in tags. Where calls are forbidden, records that do not fit
    /// into buffers are dropped.
    pub fn allow_calls(&self, allowed: bool) {
        if let Collector::Log(log) = self {
            log.allow_calls(allowed);
        }
    }

    /// Handles the end of a thread.
    pub fn remove_thread(&mut self, thread: Pid) {
        match self {
            Collector::None(_) => {}
            Collector::Counts(counts) => counts.remove_thread(thread),
            Collector::Log(log) => log.remove_thread(thread),
            Collector::Card(window, _) => window.remove_thread(thread),
        }
    }

    /// Makes the tags of a child write to a slot that is not read. The child is stopped and has a
    /// copy of this process's registers and memory; it may be within a tag.
    pub fn discard_output_of(&self, child: &Stopped<'_>) -> Result<(), TagError> {
        let Some(slots) = self.slots() else { return Ok(()) };
        let registers = child.registers(child.pid)?;
        let gs_base = slots.discard_address().0;
        Ok(child.set_registers(child.pid, libc::user_regs_struct { gs_base, ..registers })?)
    }

    fn slots(&self) -> Option<&Slots> {
        match self {
            Collector::Counts(counts) => Some(&counts.slots),
            Collector::Log(log) => Some(&log.slots),
            Collector::None(_) | Collector::Card(..) => None,
        }
    }

    /// Number of entries of each function and block, if known.
    pub fn calls(&self) -> Vec<u64> {
        match self {
            Collector::Counts(counts) => {
                let mut calls: Vec<u64> = Vec::new();
                for thread in counts.read() {
                    calls.resize(calls.len().max(thread.entries.len()), 0);
                    calls
                        .iter_mut()
                        .zip(thread.entries)
                        .for_each(|(sum, count)| *sum = sum.saturating_add(count));
                }
                calls
            }
            Collector::Log(log) => log.calls(),
            _ => Vec::new(),
        }
    }

    /// Counters of each thread.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        match self {
            Collector::Counts(counts) => counts.read(),
            _ => Vec::new(),
        }
    }
}
