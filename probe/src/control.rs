//! Controls a process through ptrace and puts tags into chosen functions of it, while it runs.
//!
//! A tag is code that runs when a function is entered or left. The first instruction of a function is overwritten with
//! a jump to a stub, which holds the tag and the moved instruction. Every entry executes the first instruction, so the
//! jump misses none: direct calls, calls through pointers, tail calls, calls from code that was never disassembled.
//!
//! Data flow: [`crate::disassembly`] decides what can be moved, [`crate::stubs`] generates the stubs, [`crate::ptrace`]
//! stops threads and writes memory. This module connects them: [`Tagged`] is one process with its tags, [`follow()`]
//! and [`follow_all`] run it, and `collector` reads what the tags write.
//!
//! Invariant: instructions are changed only while all threads of the process are stopped, and a thread whose
//! instruction pointer is at a changed instruction is moved to where that instruction is then.

pub(crate) mod abandoned;
mod areas;
mod boundaries;
mod breakpoint;
mod budget;
mod changed_function;
mod child;
mod code;
mod collector;
mod comparison;
mod conflicts;
mod direct_calls;
mod edits;
mod ending;
mod error;
mod event_loop;
mod goroutines;
mod gs;
mod insertion;
mod libraries;
mod linkage;
mod linker;
mod loaded;
mod map;
mod notice;
mod patch;
mod perf_map;
mod process_tree;
mod refused;
mod removal;
mod restorers;
mod sample;
mod sampler;
pub(crate) mod shared;
mod signal_frames;
mod stub_names;
mod stub_rows;
mod symbols;
mod thread_return;
mod unfinished;
mod unwind;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::Pid;

use crate::address::{LoadBias, RunAddr};
use crate::disassembly::{Block, Disassembly, FileIndex, Granularity, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::{self, Mapping, Memory, Process};
use crate::selection::Selection;
use crate::stubs::Sink;

pub use abandoned::{AbandonedTags, controller};
use breakpoint::Breakpoint;
use budget::Budget;
pub use budget::RemovedFunction;
use collector::Collector;
pub use collector::Output;
use conflicts::ConflictWatch;
pub use ending::Ending;
pub use error::{TagError, WindowError};
pub use event_loop::{follow, follow_all};
use libraries::Library;
use loaded::LoadedFile;
pub use loaded::bias;
pub use notice::Notice;
use patch::PatchedFunction;
pub use perf_map::{PerfMap, PerfMapError};
pub use process_tree::TraceObserver;
pub use refused::{RefusalReason, Refused};
pub use removal::RemainingMemory;
use restorers::Restorers;
pub use sample::{Sampled, sample};
pub use sampler::Samples;
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::marks::MarkOutput;
pub use shared::window::CardWindow;
pub use shared::writer::LogSummary;
pub use symbols::symbol_file;

/// Every function of a program, with the changes that tagging it would make, or the reason why it cannot be tagged.
pub fn verdicts(image: &Image) -> Vec<(&Function, Result<Rewrite, Refusal>)> {
    let functions: Vec<&Function> = image.functions.iter().collect();
    let rewrites = Disassembly::new(image, &FileIndex::new(image)).rewrites(&functions, true);
    functions.into_iter().zip(rewrites).collect()
}

/// Compares an image with the memory of a process that has loaded it, and refuses functions that differ.
///
/// `bias`: as returned by [`bias`]. Returns whether the comparison was made: it is not made while tags are in the
/// process, because their jumps differ from the file.
pub fn compare(image: &mut Image, bias: LoadBias, mapped: &[Mapping], memory: &Memory) -> bool {
    if abandoned::is_tagged(mapped) {
        return false;
    }
    let read = |address, bytes: &mut [u8]| memory.read(address, bytes);
    image.differing = comparison::differences(image, bias, &loaded::ALL, std::iter::empty(), read);
    true
}

/// The functions of a program whose loops or blocks are chosen, each with the changes that tagging all chosen functions
/// would make to it, or the reason why it cannot be tagged.
pub fn finer_verdicts<'a>(
    image: &'a Image,
    selection: &Selection,
) -> Vec<(&'a Function, Result<Rewrite, Refusal>)> {
    let chosen = image.functions.iter();
    let chosen = chosen.filter_map(|one| Some((one, selection.granularity(one, None)?)));
    let chosen: Vec<(&Function, Granularity)> = chosen.collect();
    let rewrites =
        Disassembly::new(image, &FileIndex::new(image)).rewrites_with_granularity(&chosen, true);
    let all = chosen.into_iter().zip(rewrites);
    let finer = all.filter(|((_, granularity), _)| *granularity != Granularity::Function);
    finer.map(|((function, _), rewrite)| (function, rewrite)).collect()
}

/// Reads the program file of a process: the file that it executes, even if that is in another mount namespace or was
/// renamed.
///
/// # Errors
/// [`TagError::Ptrace`] if the process has no program or its file cannot be opened, [`TagError::Program`] if the file
/// is damaged.
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
    patched: Vec<PatchedFunction>,
    /// Functions that were chosen and are not tagged, with the reason.
    pub refused: Vec<Refused>,
    collector: Collector,
    program: Arc<LoadedFile>,
    selection: Selection,
    sink: Sink,
    breakpoints: Vec<Breakpoint>,
    /// Addresses of instructions that were changed since the process was tagged, ascending.
    jumps: Vec<RunAddr>,
    /// Libraries with chosen functions that could not be read, with the reason.
    pub unread: Vec<(PathBuf, TagError)>,
    libraries: BTreeMap<libraries::Key, Library>,
    /// Memory areas that hold stubs.
    areas: Vec<Range<RunAddr>>,
    /// Address of the list of unwind tables in the process.
    list: RunAddr,
    /// Stubs that unwinders can look up in that list, in the order in which they were added.
    described_code: Vec<Range<RunAddr>>,
    /// Memory of the unwind tables.
    tables: Vec<Range<RunAddr>>,
    budget: Option<Budget>,
    removed: Vec<RemovedFunction>,
    overwritten: Vec<(String, RunAddr)>,
    is_changed: bool,
    /// Most functions and blocks that may be tagged.
    max_functions: usize,
    restorers: Restorers,
    /// Processes that share the tracee's memory (`vfork`), each with the parent thread that waits until the process has
    /// memory of its own.
    memory_sharers: BTreeMap<Pid, Option<Pid>>,
    watch: ConflictWatch,
    /// Messages for the user: what could not be done while the process ran, and why.
    pub notices: Vec<Notice>,
}

/// State of a process that was detached.
#[derive(Debug)]
pub struct Restored {
    /// Memory of the tags that remains in the process.
    pub remaining: RemainingMemory,
    /// Functions and addresses where the program has overwritten a jump of a tag. These addresses keep the program's
    /// bytes.
    pub overwritten: Vec<(String, RunAddr)>,
}

/// When tags are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Immediately.
    Now,
    /// When a program that was just launched reaches its `main`.
    Main,
}

/// Most functions of libraries that may be tagged.
const LIBRARY_FUNCTIONS: usize = 1 << 17;
/// Most blocks of library functions that may be tagged.
const LIBRARY_BLOCKS: usize = 1 << 20;

impl Tagged {
    /// Tags the chosen functions of a process. All its threads must be stopped, and remain stopped.
    ///
    /// # Errors
    /// [`TagError`]; the functions of the process are unchanged then.
    pub fn new(
        process: Process,
        image: Image,
        selection: Selection,
        output: Output,
        start: Start,
    ) -> Result<Self, TagError> {
        let mut process = AbandonedTags::find(process)?.take_over()?;
        let program = Arc::new(LoadedFile::find_program(&process, image)?);
        let sink = output.sink();
        selection.record_matches(&program.image.functions, None);
        let functions = program.image.functions.iter();
        let chosen = functions.filter(|function| selection.matches(function, None)).count();
        let more = if selection.has_libraries() { LIBRARY_FUNCTIONS } else { 0 };
        let max_functions = chosen + more + max_blocks(&program.image, &selection);
        process.check_filters()?;
        // The libraries of a launched program are not loaded yet: it is still at its first instruction.
        gs::check(&process, sink)?;
        let sizes = (chosen, max_functions);
        let collector = match Collector::new(&mut process, None, output, sizes) {
            Ok(collector) => collector,
            Err(error) => {
                // The name of the shared memory identifies what was already added.
                let _ = AbandonedTags::find(process).and_then(AbandonedTags::restore);
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
            breakpoints: Vec::new(),
            jumps: Vec::new(),
            unread: Vec::new(),
            libraries: BTreeMap::new(),
            areas: Vec::new(),
            list: RunAddr(0),
            described_code: Vec::new(),
            tables: Vec::new(),
            budget: None,
            removed: Vec::new(),
            overwritten: Vec::new(),
            is_changed: false,
            max_functions,
            restorers: Restorers::new(),
            memory_sharers: BTreeMap::new(),
            watch: ConflictWatch::default(),
            notices: Vec::new(),
        };
        match tagged.start(start) {
            Ok(()) => Ok(tagged),
            Err(error) => {
                // What cannot be undone was not done either, so this error is not reported.
                let _ = tagged.undo();
                Err(error)
            }
        }
    }

    fn start(&mut self, start: Start) -> Result<(), TagError> {
        self.check_log()?;
        self.make_table_list()?;
        self.add_threads()?;
        if start == Start::Now || !self.wait_for_main()? {
            self.insert_tags()?;
        }
        Ok(())
    }

    /// Removes all jumps from the process, or from a copy of it (a child). Returns the addresses at which the program
    /// has written something else.
    fn remove_jumps(&self, process: &Process) -> Result<Vec<RunAddr>, TagError> {
        let mut others = patch::restore(process, &self.patched)?;
        for breakpoint in &self.breakpoints {
            others.extend(patch::restore(process, std::slice::from_ref(&breakpoint.patched))?);
        }
        // The restorers are last: signal frames may return to instructions that the jumps overwrite.
        others.extend(self.restorers.remove_jumps(process)?);
        Ok(others)
    }

    /// Removes all jumps, and moves threads out of the stubs as far as possible. All threads must be stopped. Returns
    /// the addresses at which the program has written something else.
    fn restore_code(&mut self) -> Result<Vec<RunAddr>, TagError> {
        let others = self.remove_jumps(&self.process)?;
        // A copy of a breakpoint that the program has made must not wait for this controller.
        self.collector.shared().release_breakpoints();
        self.process.restorers.clear();
        self.move_out_of_stubs(|_| true)?;
        if others.is_empty() {
            self.areas.extend(self.breakpoints.drain(..).map(|breakpoint| breakpoint.stubs));
        }
        thread_return::return_threads(&mut self.process, &self.patched.iter().collect::<Vec<_>>())?;
        // A thread that has left code in which it receives no signals can receive one now.
        self.move_out_of_stubs(|_| true)?;
        Ok(others)
    }

    /// Removes all tags and their memory. Returns the memory that remains.
    fn undo(&mut self) -> Result<RemainingMemory, TagError> {
        if self.is_untagged() && self.areas.is_empty() {
            return Ok(RemainingMemory::Nothing);
        }
        let others = self.restore_code()?;
        if !others.is_empty() {
            self.record_overwritten(others);
            // The program may have copied a jump to somewhere else: stubs stay.
            return Ok(RemainingMemory::InUse);
        }
        self.unmap_memory()
    }

    /// Unmaps the memory of tags whose jumps are removed. Returns the memory that remains.
    fn unmap_memory(&mut self) -> Result<RemainingMemory, TagError> {
        if self.is_unwinding()? {
            return Ok(RemainingMemory::InUse);
        }
        let shared = [self.collector.memory()];
        removal::unmap(&mut self.process, &self.areas, &shared)
    }

    /// Process ID.
    pub fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Path of the program file.
    pub fn program(&self) -> &Path {
        &self.program.image.path
    }

    /// Gives all threads the registers that their tags need.
    fn add_threads(&mut self) -> Result<(), TagError> {
        let threads: Vec<Pid> = self.process.threads.keys().copied().collect();
        threads.into_iter().try_for_each(|thread| self.add_thread(thread))
    }

    /// Gives a stopped thread the registers that its tags need.
    fn add_thread(&mut self, thread: Pid) -> Result<(), TagError> {
        if self.is_untagged() {
            return Ok(());
        }
        self.collector.add_thread(&self.process, thread)
    }

    /// Functions that are tagged.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.patched.iter().map(|patched| &patched.function)
    }

    /// Blocks that are tagged: number (index in [`ThreadCounts::entries`]), file, function, block.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, &Path, &Function, &Block)> {
        self.numbered_blocks().map(|(number, patched, block)| {
            (number, patched.object.as_path(), &patched.function, block)
        })
    }

    fn numbered_blocks(&self) -> impl Iterator<Item = (u32, &PatchedFunction, &Block)> {
        self.patched.iter().flat_map(|patched| {
            let numbers = patched.number + 1..;
            numbers.zip(&patched.blocks).map(move |(number, block)| (number, patched, block))
        })
    }

    /// Whether loops or blocks of some functions were chosen, not only calls.
    pub fn is_finer(&self) -> bool {
        self.selection.has_granularity_rules(false)
    }

    /// Blocks of tagged functions that were chosen and are not tagged.
    pub fn refused_blocks(&self) -> impl Iterator<Item = (&Function, &Block)> {
        self.patched
            .iter()
            .flat_map(|one| one.refused_blocks.iter().map(move |block| (&one.function, block)))
    }

    /// Functions that are tagged: number (index in [`ThreadCounts::entries`]), file, function.
    pub fn objects(&self) -> impl Iterator<Item = (u32, &Path, &Function)> {
        self.patched
            .iter()
            .map(|patched| (patched.number, patched.object.as_path(), &patched.function))
    }

    /// Counters of each thread.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        self.collector.counts()
    }

    /// Ends the log, if there is one. The process has ended, or all its threads are stopped.
    ///
    /// # Errors
    /// [`TagError::Log`] if the log cannot be written.
    pub fn finish(&mut self, ending: Ending) -> Result<Option<LogSummary>, TagError> {
        if ending == Ending::Detached {
            self.finish_tags();
        }
        match &mut self.collector {
            Collector::Log(log) => log.finish(ending.into()).map(Some),
            _ => Ok(None),
        }
    }

    /// Removes all tags from a process whose threads are all stopped, and detaches from it.
    ///
    /// # Errors
    /// [`TagError`] if the tags cannot be removed or the process cannot be detached.
    pub fn restore(mut self) -> Result<Restored, TagError> {
        let undone = self.undo();
        self.detach_children();
        let remaining = undone?;
        self.process.detach()?;
        Ok(Restored { remaining, overwritten: self.overwritten })
    }

    /// Records jumps that the program has overwritten.
    fn record_overwritten(&mut self, addresses: Vec<RunAddr>) {
        for address in addresses {
            let breakpoints = self.breakpoints.iter().map(|breakpoint| &breakpoint.patched);
            let mut all = self.patched.iter().chain(breakpoints);
            let has =
                |one: &&PatchedFunction| one.edits().iter().any(|edit| edit.address == address);
            let name = all.find(has).map_or_else(String::new, |one| one.function.name.clone());
            self.overwritten.push((name, address));
        }
    }

    /// Detaches from a process that has executed another program, and returns its ID.
    ///
    /// # Errors
    /// [`TagError::Ptrace`] if the process cannot be detached.
    pub fn release(self) -> Result<Pid, TagError> {
        let pid = self.process.pid;
        self.process.detach()?;
        Ok(pid)
    }
}

/// Most blocks that may be tagged: every byte of code may begin a block. Memory is allocated only for blocks that
/// exist.
fn max_blocks(image: &Image, selection: &Selection) -> usize {
    let is_finer = |one: &&Function| {
        selection
            .granularity(one, None)
            .is_some_and(|granularity| granularity != Granularity::Function)
    };
    let finer = image.functions.iter().filter(is_finer);
    let apart = image.fragments.iter().map(|part| (part.end - part.start) as usize).sum::<usize>();
    let own = finer.map(|one| one.size as usize).sum::<usize>();
    let own = if own == 0 { 0 } else { own + apart };
    own + if selection.has_granularity_rules(true) { LIBRARY_BLOCKS } else { 0 }
}
