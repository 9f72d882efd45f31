//! A process and chosen functions to a process that says when it enters them, and back.
//!
//! Every entry of a function goes through its first instruction, so a jump there misses none: calls,
//! calls through pointers, tail calls, calls from code nobody knows. Invariant: text is changed only
//! while all threads stand still, and a thread that stands in what is changed is moved to where the same
//! instruction is then.

mod abandoned;
mod begin;
mod budget;
mod child;
mod collector;
mod error;
mod family;
mod follow;
mod gate;
mod leave;
mod linker;
mod loaded;
mod map;
mod patch;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Pid;

use crate::disassembly::{Disassembly, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::Process;
use crate::selection::Selection;
use crate::stubs::Sink;

pub use abandoned::{Abandoned, controller};
use budget::Budget;
pub use budget::TakenOut;
use collector::Collector;
pub use collector::Output;
pub use error::TagError;
pub use family::Keeper;
pub use follow::{Ending, follow, follow_all};
use gate::Gate;
use loaded::Loaded;
use patch::Patched;
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::marks::MarkOutput;
pub use shared::window::{CardWindow, WindowError};
pub use shared::writer::LogSummary;
use shared::{Overwritten, Place};

/// Functions of a program, each with what would be changed, or why it cannot be tagged.
pub fn verdicts(image: &Image) -> Vec<(&Function, Result<Rewrite, Refusal>)> {
    let functions: Vec<&Function> = image.functions.iter().collect();
    let rewrites = Disassembly::of(image).rewrites(&functions, true);
    functions.into_iter().zip(rewrites).collect()
}

/// A process whose functions are tagged.
#[derive(Debug)]
pub struct Tagged {
    process: Process,
    patched: Vec<Patched>,
    /// Functions that were chosen and are not patched, with the reason.
    pub refused: Vec<(Function, String)>,
    collector: Collector,
    program: Arc<Loaded>,
    selection: Selection,
    sink: Sink,
    gates: Vec<Gate>,
    /// Files that were looked at, and where they are.
    known: BTreeSet<(PathBuf, u64)>,
    /// Memory for stubs.
    areas: Vec<Range<u64>>,
    budget: Option<Budget>,
    taken_out: Vec<TakenOut>,
    is_changed: bool,
    /// Functions that may be tagged, at most.
    at_most: usize,
    /// Processes with the same memory, and the thread of each that waits until it has its own.
    lodgers: BTreeMap<Pid, Option<Pid>>,
}

/// When tags are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// When a program that has just been launched gets to its `main`.
    Main,
}

/// Functions of libraries that may be tagged, at most.
const LIBRARY_FUNCTIONS: usize = 1 << 17;

impl Tagged {
    /// Tags the chosen functions of a process whose threads all stand still; they still do.
    ///
    /// # Errors
    /// [`TagError`]; its functions are as they were.
    pub fn new(
        mut process: Process,
        image: Image,
        selection: Selection,
        output: Output,
        start: Start,
    ) -> Result<Self, TagError> {
        let program = Arc::new(Loaded::find(&process, image)?);
        let sink = output.sink();
        let scratch = program.reserve(&mut process, program.site(), 1)?;
        let functions = program.image.functions.iter();
        let chosen = functions.filter(|function| selection.matches(function, None)).count();
        let more = if selection.has_libraries() { LIBRARY_FUNCTIONS } else { 0 };
        let (place, at_most) = (Place { scratch: scratch.start, inherited: None }, chosen + more);
        let collector = Collector::new(&mut process, &program, place, output, (chosen, at_most))?;
        let mut tagged = Tagged {
            process,
            patched: Vec::new(),
            refused: Vec::new(),
            collector,
            program,
            selection,
            sink,
            gates: Vec::new(),
            known: BTreeSet::new(),
            areas: vec![scratch],
            budget: None,
            taken_out: Vec::new(),
            is_changed: false,
            at_most,
            lodgers: BTreeMap::new(),
        };
        match tagged.start(start) {
            Ok(()) => Ok(tagged),
            Err(error) => {
                // What cannot be undone cannot have been done.
                let _ = tagged.take_out(&tagged.process);
                Err(error)
            }
        }
    }

    fn start(&mut self, start: Start) -> Result<(), TagError> {
        self.enter_threads()?;
        if start == Start::Now || !self.wait_for_main()? {
            self.begin()?;
        }
        Ok(())
    }

    /// Takes all jumps out of it, or of a copy of it.
    fn take_out(&self, process: &Process) -> Result<(), TagError> {
        patch::restore(process, &self.patched)?;
        let gates = self.gates.iter().map(|gate| std::slice::from_ref(&gate.patched));
        Ok(gates.into_iter().try_for_each(|gate| patch::restore(process, gate))?)
    }

    /// Number of the process.
    pub fn pid(&self) -> Pid {
        self.process.pid
    }

    /// The file of its program.
    pub fn program(&self) -> &Path {
        &self.program.image.path
    }

    /// Gives all threads what their tags need.
    fn enter_threads(&mut self) -> Result<(), TagError> {
        let threads: Vec<Pid> = self.process.threads.keys().copied().collect();
        threads.into_iter().try_for_each(|thread| self.enter(thread))
    }

    /// Gives it to a thread that stands still.
    fn enter(&mut self, thread: Pid) -> Result<(), TagError> {
        self.collector.enter(&self.process, thread)
    }

    /// The functions that are tagged, in the order of [`ThreadCounts::entries`].
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.patched.iter().map(|patched| &patched.function)
    }

    /// The functions that are tagged, in the same order, each with the file it is of.
    pub fn objects(&self) -> impl Iterator<Item = (&Path, &Function)> {
        self.patched.iter().map(|patched| (patched.object.as_path(), &patched.function))
    }

    /// What each thread has counted.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        self.collector.counts()
    }

    /// Ends the log, if there is one, of a process that has ended or whose threads all stand still.
    pub fn finish(&mut self, ending: Ending) -> Result<Option<LogSummary>, TagError> {
        match &mut self.collector {
            Collector::Log(log) => log.finish(ending.into()).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes all tags out of a process whose threads all stand still, and lets it go. Whether nothing of
    /// ours is left in its memory: not while something may still lead there.
    pub fn restore(mut self) -> Result<bool, TagError> {
        self.take_out(&self.process)?;
        self.areas.extend(self.gates.iter().map(|gate| gate.stubs.clone()));
        self.collector.forget_overwritten();
        let (site, shared) = (self.program.site(), self.collector.memory());
        let is_out = leave::leave(&mut self.process, site, &self.areas, &shared)?;
        self.process.detach()?;
        Ok(is_out)
    }

    /// Lets a process go that has become another program.
    pub fn release(self) -> Result<Pid, TagError> {
        let pid = self.process.pid;
        self.process.detach()?;
        Ok(pid)
    }
}
