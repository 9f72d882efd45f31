//! A process and chosen functions to a process that says when it enters them, and back.
//!
//! Every entry of a function goes through its first instruction, so a jump there misses none: calls,
//! calls through pointers, tail calls, calls from code nobody knows. Invariant: text is changed only
//! while all threads stand still, and a thread that stands in what is changed is moved to where the same
//! instruction is then.

pub(crate) mod abandoned;
mod areas;
mod begin;
mod boundaries;
mod budget;
mod calls;
mod changed;
mod child;
mod code;
mod collector;
mod compare;
mod described;
mod edits;
mod ending;
mod error;
mod family;
mod follow;
mod gate;
mod goroutines;
mod gs;
mod home;
mod leave;
mod libraries;
mod linkage;
mod linker;
mod loaded;
mod map;
mod patch;
mod perf_map;
mod restorers;
mod sample;
mod sampler;
pub(crate) mod shared;
mod signal_frames;
mod stub_names;
mod symbols;
mod unfinished;
mod unwind;
mod watch;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Pid;

use crate::disassembly::{Block, Disassembly, Grain, Known, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::{self, Mapping, Memory, Process};
use crate::selection::Selection;
use crate::stubs::Sink;

pub use abandoned::{Abandoned, controller};
use budget::Budget;
pub use budget::TakenOut;
use collector::Collector;
pub use collector::Output;
pub use ending::Ending;
pub use error::{TagError, WindowError};
pub use family::Keeper;
pub use follow::{follow, follow_all};
use gate::Gate;
pub use leave::Left;
use libraries::Library;
use loaded::Loaded;
pub use loaded::bias;
use patch::Patched;
pub use patch::Refused;
pub use perf_map::{PerfMap, PerfMapError};
use restorers::Restorers;
pub use sample::{Sampled, sample};
pub use sampler::Samples;
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::marks::MarkOutput;
pub use shared::window::CardWindow;
pub use shared::writer::LogSummary;
pub use symbols::symbol_file;
use watch::Watch;

/// Functions of a program, each with what would be changed, or why it cannot be tagged.
pub fn verdicts(image: &Image) -> Vec<(&Function, Result<Rewrite, Refusal>)> {
    let functions: Vec<&Function> = image.functions.iter().collect();
    let rewrites = Disassembly::new(image, &Known::of(image)).rewrites(&functions, true);
    functions.into_iter().zip(rewrites).collect()
}

/// Compares an image with the memory of a process that has it loaded: functions that differ are refused from then on.
/// `bias`: as [`bias`] has it. Whether it was compared comes back: not while tags are in the process.
pub fn compare(image: &mut Image, bias: u64, mapped: &[Mapping], memory: &Memory) -> bool {
    if abandoned::is_tagged(mapped) {
        return false;
    }
    let read = |address, bytes: &mut [u8]| memory.read(address, bytes);
    image.differing = compare::differences(image, bias, &loaded::ALL, std::iter::empty(), read);
    true
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

/// The program of a process: the very file that it runs, in whichever mount namespace, and under whichever name now.
///
/// # Errors
/// [`TagError::Ptrace`] if there is none or it may not be opened, [`TagError::Program`] if it is damaged.
pub fn program_image(pid: Pid, selection: &Selection) -> Result<Image, TagError> {
    let (file, path) = ptrace::program(pid)?;
    let mut image = Image::from_file(file, &path)?;
    if selection.has_sources() {
        image.find_sources()?;
    }
    Ok(image)
}

/// A process whose functions are tagged.
#[derive(Debug)]
pub struct Tagged {
    process: Process,
    patched: Vec<Patched>,
    /// Functions that were chosen and are not patched, with the reason.
    pub refused: Vec<Refused>,
    collector: Collector,
    program: Arc<Loaded>,
    selection: Selection,
    sink: Sink,
    gates: Vec<Gate>,
    /// Where instructions were changed since it is tagged, sorted.
    jumps: Vec<u64>,
    /// Libraries whose functions were to be chosen from and that could not be read, with the reason.
    pub unread: Vec<(PathBuf, String)>,
    libraries: BTreeMap<libraries::Key, Library>,
    /// Memory for stubs.
    areas: Vec<Range<u64>>,
    /// Where the list of unwind tables is in memory.
    list: u64,
    /// Stubs in it that unwinders can look up, in the order in which they were added.
    described: Vec<Range<u64>>,
    /// Their unwind tables.
    tables: Vec<Range<u64>>,
    budget: Option<Budget>,
    taken_out: Vec<TakenOut>,
    overwritten: Vec<(String, u64)>,
    is_changed: bool,
    /// Functions that may be tagged, at most.
    at_most: usize,
    restorers: Restorers,
    /// Processes with the same memory, and the thread of each that waits until it has its own.
    lodgers: BTreeMap<Pid, Option<Pid>>,
    watch: Watch,
    /// What whoever asked for tags should know: what could not be done later, and why.
    pub notices: Vec<String>,
}

/// What a process is like that was let go.
#[derive(Debug)]
pub struct Restored {
    /// What is left of our memory in it.
    pub left: Left,
    /// Functions, and addresses in memory, where the program has overwritten a jump of ours. What it has written
    /// stays.
    pub overwritten: Vec<(String, u64)>,
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
        let program = Arc::new(Loaded::find_program(&process, image)?);
        let sink = output.sink();
        selection.note(&program.image.functions, None);
        let functions = program.image.functions.iter();
        let chosen = functions.filter(|function| selection.matches(function, None)).count();
        let more = if selection.has_libraries() { LIBRARY_FUNCTIONS } else { 0 };
        let at_most = chosen + more + blocks_at_most(&program.image, &selection);
        process.check_filters()?;
        // Before its libraries are there: a program that is launched is still at its first instruction.
        gs::check(&process, sink)?;
        let room = (chosen, at_most);
        let collector = match Collector::new(&mut process, None, output, room) {
            Ok(collector) => collector,
            Err(error) => {
                // What was begun is found by its name.
                let _ = Abandoned::find(process).and_then(Abandoned::restore);
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
            jumps: Vec::new(),
            unread: Vec::new(),
            libraries: BTreeMap::new(),
            areas: Vec::new(),
            list: 0,
            described: Vec::new(),
            tables: Vec::new(),
            budget: None,
            taken_out: Vec::new(),
            overwritten: Vec::new(),
            is_changed: false,
            at_most,
            restorers: Restorers::new(),
            lodgers: BTreeMap::new(),
            watch: Watch::default(),
            notices: Vec::new(),
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
        self.check_log()?;
        self.make_list()?;
        self.enter_threads()?;
        if start == Start::Now || !self.wait_for_main()? {
            self.begin()?;
        }
        Ok(())
    }

    /// Takes all jumps out of it, or of a copy of it. The addresses come back at which the program has put something
    /// else.
    fn take_out(&self, process: &Process) -> Result<Vec<u64>, TagError> {
        let mut others = patch::restore(process, &self.patched)?;
        for gate in &self.gates {
            others.extend(patch::restore(process, std::slice::from_ref(&gate.patched))?);
        }
        // Last: frames may lead to what jumps overwrite.
        others.extend(self.restorers.take_out(process)?);
        Ok(others)
    }

    /// Takes all jumps out, and threads out of stubs, as far as that can be; all threads are stopped. The addresses come
    /// back at which the program has put something else.
    fn leave_original(&mut self) -> Result<Vec<u64>, TagError> {
        let others = self.take_out(&self.process)?;
        // What the program has copied of a gate leads to where nobody looks.
        self.collector.shared().give_up();
        self.process.restorers.clear();
        self.leave_stubs(|_| true)?;
        if others.is_empty() {
            self.areas.extend(self.gates.drain(..).map(|gate| gate.stubs));
        }
        home::go_home(&mut self.process, &self.patched.iter().collect::<Vec<_>>())?;
        // One that has left the code in which it gets no signals may have one now.
        self.leave_stubs(|_| true)?;
        Ok(others)
    }

    /// Takes all tags out, and what they needed. What is left of ours in its memory.
    fn undo(&mut self) -> Result<Left, TagError> {
        if self.is_plain() && self.areas.is_empty() {
            return Ok(Left::Nothing);
        }
        let others = self.leave_original()?;
        if !others.is_empty() {
            self.note_overwritten(others);
            // The program may have copied a jump of ours to somewhere else: stubs stay.
            return Ok(Left::InUse);
        }
        self.leave_memory()
    }

    /// Takes the memory of tags that are out away. What is left of it.
    fn leave_memory(&mut self) -> Result<Left, TagError> {
        if self.is_unwinding()? {
            return Ok(Left::InUse);
        }
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
        if self.is_plain() {
            return Ok(());
        }
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

    /// Takes all tags out of a process whose threads all stand still, and lets it go.
    ///
    /// # Errors
    /// [`TagError`]
    pub fn restore(mut self) -> Result<Restored, TagError> {
        let undone = self.undo();
        self.let_children_go();
        let left = undone?;
        self.process.detach()?;
        Ok(Restored { left, overwritten: self.overwritten })
    }

    /// Takes note of jumps in whose place the program has put something else.
    fn note_overwritten(&mut self, addresses: Vec<u64>) {
        for address in addresses {
            let gates = self.gates.iter().map(|gate| &gate.patched);
            let mut all = self.patched.iter().chain(gates);
            let has = |one: &&Patched| one.edits().iter().any(|edit| edit.address == address);
            let name = all.find(has).map_or_else(String::new, |one| one.function.name.clone());
            self.overwritten.push((name, address));
        }
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
