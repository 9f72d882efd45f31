//! Puts tags into a process at the start, and removes them at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmtt_files::tag_log::FunctionId;
use nix::unistd::Pid;

use super::collector::Collector;
use super::loaded::LoadedFile;
use super::{
    AbandonedTags, Ending, Libraries, LogSummary, Notice, Output, PatchedCode, Refused,
    RemainingMemory, Restored, Start, TagError, Tagged, Tags, ThreadCounts, UnwindTables, gs,
};
use crate::disassembly::{Block, Granularity};
use crate::elf::{Function, Image};
use crate::ptrace::{Process, Stopped};
use crate::selection::Selection;

/// Maximum number of library functions that may be tagged.
const LIBRARY_FUNCTIONS: usize = 1 << 17;
/// Maximum number of blocks of library functions that may be tagged.
const LIBRARY_BLOCKS: usize = 1 << 20;

impl Tagged {
    /// Tags the chosen functions of a process. All its threads must be stopped, and remain stopped.
    ///
    /// # Errors
    /// [`TagError`]; the functions of the process are unchanged then.
    pub fn new(
        mut process: Process,
        image: Image,
        selection: Selection,
        output: Output,
        start: Start,
    ) -> Result<Self, TagError> {
        // Until the tags are inserted, a signal may end a search; changes so far are then undone.
        process.may_be_interrupted = true;
        let mut process = AbandonedTags::find(process)?.take_over()?;
        process.may_be_interrupted = true;
        let mut stopped = process.stopped()?;
        let program = Arc::new(LoadedFile::find_program(&stopped, image)?);
        let sink = output.sink();
        selection.record_matches(&program.image.functions, None);
        let functions = program.image.functions.iter();
        let chosen = functions.filter(|function| selection.matches(function, None)).count();
        let more = if selection.has_libraries() { LIBRARY_FUNCTIONS } else { 0 };
        let max_functions = chosen + more + max_blocks(&program.image, &selection);
        stopped.check_filters()?;
        // The check does not see the libraries of a launched program: the program is still at its
        // first instruction.
        gs::check(&stopped, sink)?;
        let sizes = (chosen, max_functions);
        let collector = match Collector::new(&mut stopped, None, output, sizes) {
            Ok(collector) => collector,
            Err(error) => {
                // Memory that was already added is found by the name of the shared memory.
                process.may_be_interrupted = false;
                let _ = AbandonedTags::find(process).and_then(AbandonedTags::restore);
                return Err(error);
            }
        };
        let tags = Tags {
            program,
            selection,
            max_functions,
            collector,
            code: PatchedCode::new(sink),
            unwinding: UnwindTables::default(),
            libraries: Libraries::default(),
            removed: Vec::new(),
            refused: Vec::new(),
            overwritten: Vec::new(),
            notices: Vec::new(),
            is_changed: false,
        };
        let (budget, watch, memory_sharers) = Default::default();
        let mut tagged = Tagged { process, tags, budget, watch, memory_sharers };
        let started = tagged.start(start);
        tagged.process.may_be_interrupted = false;
        match started {
            Ok(()) => Ok(tagged),
            Err(error) => {
                // The first error is reported, not an error of undoing.
                let _ = tagged.undo();
                Err(error)
            }
        }
    }

    fn start(&mut self, start: Start) -> Result<(), TagError> {
        self.check_log()?;
        self.change(|tags, process| {
            tags.make_table_list(process)?;
            let mut threads = process.threads.keys();
            threads.try_for_each(|thread| tags.add_thread(process.thread(*thread)))?;
            if start == Start::Now || !tags.wait_for_main(process)? {
                tags.insert(process)?;
            }
            Ok(())
        })
    }

    /// Changes the tags while all threads of the process are stopped.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Tags, &mut Stopped<'_>) -> Result<T, TagError>,
    ) -> Result<T, TagError> {
        let mut stopped = self.process.stopped()?;
        stopped.enter_handlers(|address| !self.tags.code.is_untouched(address))?;
        change(&mut self.tags, &mut stopped)
    }

    /// Removes all tags and their memory. Returns the memory that remains.
    pub(super) fn undo(&mut self) -> Result<RemainingMemory, TagError> {
        if self.is_untagged() && self.tags.code.areas.is_empty() {
            return Ok(RemainingMemory::Nothing);
        }
        self.change(|tags, process| {
            let others = tags.restore_code(process)?;
            if !others.is_empty() {
                tags.record_overwritten(others);
                // The program may have copied a jump to somewhere else: stubs stay.
                return Ok(RemainingMemory::InUse);
            }
            process.enter_handlers(|address| tags.code.is_tag_memory(address))?;
            tags.unmap_memory(process)
        })
    }

    /// Gives a stopped thread the register values that its tags need.
    pub(super) fn add_thread(&mut self, thread: Pid) -> Result<(), TagError> {
        if self.is_untagged() {
            return Ok(());
        }
        self.tags.add_thread(self.process.thread_at_event(thread))
    }

    /// Ends the log, if there is one. The process has ended, or all its threads are stopped.
    ///
    /// # Errors
    /// [`TagError::Log`] if the log cannot be written.
    pub fn finish(&mut self, ending: Ending) -> Result<Option<LogSummary>, TagError> {
        if ending == Ending::Detached
            && let Ok(process) = self.process.stopped()
        {
            self.tags.finish_tags(&process);
        }
        match &mut self.tags.collector {
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
        Ok(Restored { remaining, overwritten: self.tags.overwritten })
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

    /// Process ID.
    pub fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Path of the program file.
    pub fn program(&self) -> &Path {
        &self.tags.program.image.path
    }

    /// Functions that are tagged.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.tags.code.functions.iter().map(|patched| &patched.function)
    }

    /// Functions that are tagged: number, file, function.
    pub fn objects(&self) -> impl Iterator<Item = (FunctionId, &Path, &Function)> {
        let functions = self.tags.code.functions.iter();
        functions.map(|patched| (patched.id, patched.object.as_path(), &patched.function))
    }

    /// Blocks that are tagged: number, file, function, block.
    pub fn blocks(&self) -> impl Iterator<Item = (FunctionId, &Path, &Function, &Block)> {
        self.tags.code.functions.iter().flat_map(|patched| {
            let (path, function) = (patched.object.as_path(), &patched.function);
            let blocks = patched.numbered_blocks();
            blocks.map(move |(id, block)| (id, path, function, block))
        })
    }

    /// Whether loops or blocks of some functions were chosen, not calls alone.
    pub fn is_finer(&self) -> bool {
        self.tags.selection.has_granularity_rules(false)
    }

    /// Blocks of tagged functions that were chosen and are not tagged.
    pub fn refused_blocks(&self) -> impl Iterator<Item = (&Function, &Block)> {
        let functions = self.tags.code.functions.iter();
        functions.flat_map(|patched| {
            patched.refused_blocks.iter().map(move |block| (&patched.function, block))
        })
    }

    /// Functions that were chosen and are not tagged, with the reason.
    pub fn refused(&self) -> &[Refused] {
        &self.tags.refused
    }

    /// Libraries with chosen functions that could not be read, with the reason.
    pub fn unread(&self) -> &[(PathBuf, TagError)] {
        &self.tags.libraries.unread
    }

    /// Operations that failed while the process ran, with the reasons.
    pub fn notices(&self) -> &[Notice] {
        &self.tags.notices
    }

    /// Counters of each thread.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        self.tags.collector.counts()
    }
}

/// Maximum number of blocks that may be tagged: every byte of code may begin a block. Memory is
/// allocated only for blocks that exist.
fn max_blocks(image: &Image, selection: &Selection) -> usize {
    let is_finer = |function: &&Function| {
        selection
            .granularity(function, None)
            .is_some_and(|granularity| granularity != Granularity::Function)
    };
    let finer = image.functions.iter().filter(is_finer);
    let apart = image.fragments.iter().map(|part| (part.end - part.start) as usize).sum::<usize>();
    let own = finer.map(|function| function.size as usize).sum::<usize>();
    let own = if own == 0 { 0 } else { own + apart };
    own + if selection.has_granularity_rules(true) { LIBRARY_BLOCKS } else { 0 }
}
