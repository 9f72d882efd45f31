//! What tags leave to where it goes: one of the ways, chosen once.

use std::ops::Range;

use nix::unistd::Pid;

use super::TagError;
use super::shared::counts::{Counts, ThreadCounts};
use super::shared::log::{Log, LogOutput};
use super::shared::slots::Slots;
use super::shared::window::{CardWindow, Window};
use super::shared::{Inherited, Overwritten, Shape, Shared};
use crate::ptrace::Process;
use crate::stubs::Sink;

/// Where what tags leave is to go.
#[derive(Debug)]
pub enum Output {
    /// Nowhere: the cost of the jumps.
    None,
    /// Into counters.
    Counts,
    /// Into a file, through buffers.
    Log(LogOutput),
    /// Past a card.
    Card(CardWindow),
}

impl Output {
    /// Whether it tells how often a function is called, while the process runs.
    pub fn tells_calls(&self) -> bool {
        matches!(self, Output::Counts | Output::Log(_))
    }

    /// What tags are to do.
    pub fn sink(&self) -> Sink {
        match self {
            Output::None => Sink::None,
            Output::Counts => Sink::Count,
            Output::Log(log) => Sink::Log(log.shape),
            Output::Card(_) => Sink::Card,
        }
    }
}

/// Where it goes.
#[derive(Debug)]
pub(super) enum Collector {
    None(Shared),
    Counts(Counts),
    Log(Log),
    Card(Window, Shared),
}

impl Collector {
    /// Makes ready for so many functions now, and at most so many.
    pub fn new(
        process: &mut Process,
        inherited: Option<Inherited>,
        output: Output,
        (functions, at_most): (usize, usize),
    ) -> Result<Self, TagError> {
        let nothing = |process: &mut Process| Shared::new(process, inherited, Shape::NONE, at_most);
        Ok(match output {
            Output::None => Collector::None(nothing(process)?),
            Output::Counts => Collector::Counts(Counts::new(process, inherited, at_most)?),
            Output::Log(log) => Collector::Log(Log::new(process, inherited, log, at_most)?),
            Output::Card(window) => {
                let events = 2 * functions as u64;
                let shared = nothing(process)?;
                Collector::Card(Window::new(process, &shared, &window, events)?, shared)
            }
        })
    }

    /// Makes ready for more functions.
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

    /// Takes note of what is to be overwritten, for a controller that takes it out later.
    pub fn note(&self, overwritten: &[Overwritten]) -> Result<(), TagError> {
        self.shared().note(overwritten)
    }

    /// Takes note of memory that a child has as its parent had it added.
    pub fn note_area(&self, area: &Range<u64>) -> Result<(), TagError> {
        self.shared().note_area(area).map(drop)
    }

    /// Where the process has the memory that threads write to.
    pub fn memory(&self) -> Range<u64> {
        let shared = self.shared();
        shared.start..shared.start + shared.bytes
    }

    /// The memory that all of them have.
    pub fn shared(&self) -> &Shared {
        match self {
            Collector::None(shared) | Collector::Card(_, shared) => shared,
            Collector::Counts(counts) => counts.shared(),
            Collector::Log(log) => log.shared(),
        }
    }

    /// Gives a thread that stands still what its tags need.
    pub fn enter(&mut self, process: &Process, thread: Pid) -> Result<(), TagError> {
        match self {
            Collector::None(_) => Ok(()),
            Collector::Counts(counts) => counts.slots.enter(process, thread).map(drop),
            Collector::Log(log) => log.enter(process, thread),
            Collector::Card(window, _) => window.enter(process, thread),
        }
    }

    /// Whether a thread has what it needs.
    pub fn knows(&self, thread: Pid) -> bool {
        match self {
            Collector::None(_) => true,
            Collector::Card(window, _) => window.knows(thread),
            _ => self.slots().is_some_and(|slots| slots.knows(thread)),
        }
    }

    /// Threads that have what they need, as far as that is theirs alone.
    pub fn threads(&self) -> Vec<Pid> {
        self.slots()
            .map(|slots| slots.iter().map(|(thread, _)| thread).collect())
            .unwrap_or_default()
    }

    /// Whether a thread with this in `gs` writes where it may. New threads have that of who started them.
    pub fn owns(&self, gs: u64) -> bool {
        match self {
            Collector::None(_) => true,
            Collector::Counts(counts) => counts.shared().holds(gs),
            Collector::Log(log) => log.shared().holds(gs),
            Collector::Card(window, _) => window.is_at(gs),
        }
    }

    /// Lets tags make system calls, or not: then what does not fit into buffers is dropped.
    pub fn allow_calls(&self, allowed: bool) {
        if let Collector::Log(log) = self {
            log.allow_calls(allowed);
        }
    }

    /// Takes note that a thread has ended.
    pub fn leave(&mut self, thread: Pid) {
        match self {
            Collector::None(_) => {}
            Collector::Counts(counts) => counts.leave(thread),
            Collector::Log(log) => log.leave(thread),
            Collector::Card(window, _) => window.leave(thread),
        }
    }

    /// Makes a child that has a copy of our process's registers and memory, and stands still, one that
    /// leaves no trace, even if it began within a tag.
    pub fn disown(&self, child: &Process) -> Result<(), TagError> {
        let Some(slots) = self.slots() else { return Ok(()) };
        let registers = child.registers(child.pid)?;
        let gs_base = slots.of_nobody();
        Ok(child.set_registers(child.pid, libc::user_regs_struct { gs_base, ..registers })?)
    }

    fn slots(&self) -> Option<&Slots> {
        match self {
            Collector::Counts(counts) => Some(&counts.slots),
            Collector::Log(log) => Some(&log.slots),
            Collector::None(_) | Collector::Card(..) => None,
        }
    }

    /// How often each function was entered so far, as far as that is known.
    pub fn calls(&self) -> Vec<u64> {
        match self {
            Collector::Counts(counts) => {
                let mut calls: Vec<u64> = Vec::new();
                for thread in counts.read() {
                    calls.resize(calls.len().max(thread.entries.len()), 0);
                    calls
                        .iter_mut()
                        .zip(thread.entries)
                        .for_each(|(sum, one)| *sum = sum.saturating_add(one));
                }
                calls
            }
            Collector::Log(log) => log.calls(),
            _ => Vec::new(),
        }
    }

    /// What each thread has counted.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        match self {
            Collector::Counts(counts) => counts.read(),
            _ => Vec::new(),
        }
    }
}
