//! A process and chosen functions to a process that says when it enters them, and back.
//!
//! Every entry of a function goes through its first instruction, so a jump there misses none: calls,
//! calls through pointers, tail calls, calls from code nobody knows. Invariant: text is changed only
//! while all threads stand still, and a thread that stands in what is changed is moved to where the same
//! instruction is then.

mod abandoned;
mod begin;
mod budget;
mod calls;
mod child;
mod collector;
mod edits;
mod error;
mod family;
mod follow;
mod gate;
mod home;
mod leave;
mod linkage;
mod linker;
mod loaded;
mod map;
mod patch;
mod sample;
mod shared;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Pid;

use crate::disassembly::{Block, Disassembly, Grain, Known, Refusal, Rewrite};
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
pub use sample::{Sampled, Samples, sample};
use shared::Place;
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::marks::MarkOutput;
pub use shared::window::{CardWindow, WindowError};
pub use shared::writer::LogSummary;

/// Functions of a program, each with what would be changed, or why it cannot be tagged.
pub fn verdicts(image: &Image) -> Vec<(&Function, Result<Rewrite, Refusal>)> {
    let functions: Vec<&Function> = image.functions.iter().collect();
    let rewrites = Disassembly::new(image, &Known::of(image)).rewrites(&functions, true);
    functions.into_iter().zip(rewrites).collect()
}

/// The functions of a program of which loops or blocks are chosen, as they are changed with all that are chosen.
pub fn finer_verdicts<'a>(
    image: &'a Image,
    selection: &Selection,
) -> Vec<(&'a Function, Result<Rewrite, Refusal>)> {
    let chosen = image.functions.iter();
    let chosen = chosen.filter_map(|one| Some((one, selection.grain(one, None)?)));
    let chosen: Vec<(&Function, Grain)> = chosen.collect();
    let rewrites = Disassembly::new(image, &Known::of(image)).finer_rewrites(&chosen, true);
    let all = chosen.into_iter().zip(rewrites);
    let finer = all.filter(|((_, grain), _)| *grain != Grain::Function);
    finer.map(|((function, _), rewrite)| (function, rewrite)).collect()
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
/// Blocks of theirs, at most.
const LIBRARY_BLOCKS: usize = 1 << 20;

impl Tagged {
    /// Tags the chosen functions of a process whose threads all stand still; they still do.
    ///
    /// # Errors
    /// [`TagError`]; its functions are as they were.
    pub fn new(
        process: Process,
        image: Image,
        selection: Selection,
        output: Output,
        start: Start,
    ) -> Result<Self, TagError> {
        let mut process = Abandoned::find(process)?.make_way()?;
        let program = Arc::new(Loaded::find(&process, image)?);
        let sink = output.sink();
        let scratch = program.reserve(&mut process, 1)?;
        let functions = program.image.functions.iter();
        let chosen = functions.filter(|function| selection.matches(function, None)).count();
        let more = if selection.has_libraries() { LIBRARY_FUNCTIONS } else { 0 };
        let at_most = chosen + more + blocks_at_most(&program.image, &selection);
        let place = Place { scratch: scratch.start, inherited: None };
        let collector = match Collector::new(&mut process, place, output, (chosen, at_most)) {
            Ok(collector) => collector,
            Err(error) => {
                let _ = leave::leave(&mut process, &[scratch], &[]);
                return Err(error);
            }
        };
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
                let _ = tagged.undo();
                Err(error)
            }
        }
    }

    fn start(&mut self, start: Start) -> Result<(), TagError> {
        self.collector.note(&self.areas[0], &[])?;
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

    /// Takes all tags out, and what they needed. Whether nothing of ours is left in its memory.
    fn undo(&mut self) -> Result<bool, TagError> {
        self.take_out(&self.process)?;
        self.areas.extend(self.gates.drain(..).map(|gate| gate.stubs));
        home::go_home(&mut self.process, &self.patched.iter().collect::<Vec<_>>())?;
        let shared = [self.collector.memory()];
        leave::leave(&mut self.process, &self.areas, &shared)
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

    /// The functions that are tagged.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.patched.iter().map(|patched| &patched.function)
    }

    /// Blocks that are tagged, with their numbers, which are places in [`ThreadCounts::entries`], the files and
    /// the functions they are of.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, &Path, &Function, &Block)> {
        self.numbered_blocks().map(|(number, patched, block)| {
            (number, patched.object.as_path(), &patched.function, block)
        })
    }

    fn numbered_blocks(&self) -> impl Iterator<Item = (u32, &Patched, &Block)> {
        self.patched.iter().flat_map(|patched| {
            let numbers = patched.number + 1..;
            numbers.zip(&patched.blocks).map(move |(number, block)| (number, patched, block))
        })
    }

    /// Whether more than calls of some functions was to be seen.
    pub fn is_finer(&self) -> bool {
        self.selection.is_finer(false)
    }

    /// Blocks that were chosen and are not tagged, of functions that are.
    pub fn refused_blocks(&self) -> impl Iterator<Item = (&Function, &Block)> {
        self.patched
            .iter()
            .flat_map(|one| one.refused_blocks.iter().map(move |block| (&one.function, block)))
    }

    /// The functions that are tagged, each with its number, which is its place in [`ThreadCounts::entries`], and
    /// the file it is of.
    pub fn objects(&self) -> impl Iterator<Item = (u32, &Path, &Function)> {
        self.patched
            .iter()
            .map(|patched| (patched.number, patched.object.as_path(), &patched.function))
    }

    /// What each thread has counted.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        self.collector.counts()
    }

    /// Ends the log, if there is one, of a process that has ended or whose threads all stand still.
    pub fn finish(&mut self, ending: Ending) -> Result<Option<LogSummary>, TagError> {
        if ending == Ending::Detached {
            self.finish_tags();
        }
        match &mut self.collector {
            Collector::Log(log) => log.finish(ending.into()).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes all tags out of a process whose threads all stand still, and lets it go. Whether nothing of
    /// ours is left in its memory: not while something may still lead there.
    pub fn restore(mut self) -> Result<bool, TagError> {
        let undone = self.undo();
        self.let_children_go();
        let is_out = undone?;
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

/// How many blocks may be tagged at most: a block has a byte. Memory is taken only where there are some.
fn blocks_at_most(image: &Image, selection: &Selection) -> usize {
    let is_finer =
        |one: &&Function| selection.grain(one, None).is_some_and(|grain| grain != Grain::Function);
    let finer = image.functions.iter().filter(is_finer);
    let apart = image.fragments.iter().map(|part| (part.end - part.start) as usize).sum::<usize>();
    let own = finer.map(|one| one.size as usize).sum::<usize>();
    let own = if own == 0 { 0 } else { own + apart };
    own + if selection.is_finer(true) { LIBRARY_BLOCKS } else { 0 }
}
