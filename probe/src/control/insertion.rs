//! Inserts the tags of a program, and watches for its `main` and for the libraries that it loads.

use std::ops::Range;
use std::sync::Arc;

use hmtt_files::tag_log::FunctionId;

use super::breakpoint::{Breakpoint, Purpose};
use super::loaded::{ALL, LoadedFile};
use super::patch::{self, PatchedFunction};
use super::{Notice, TagError, Tags, areas, gs, linker};
use crate::address::RunAddr;
use crate::elf::Function;
use crate::ptrace::{Mapping, Stopped, code_files};
use crate::selection::Selection;

/// Largest distance in bytes between a function and the bytes that are changed for it.
const NEAR: u64 = 4096;

/// The file that is mapped at an address.
fn file_at<'a>(files: &[&'a Mapping], mapped: &[Mapping], address: RunAddr) -> Option<&'a Mapping> {
    let mapping = mapped.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    files.iter().find(|file| file.is_same_file(mapping)).copied()
}

impl Tags {
    /// Sets a breakpoint at `main`, or at the entry point if nothing can be changed at `main`.
    /// Returns whether a breakpoint was set: `main` may be unknown, and both places may be
    /// impossible to change.
    pub(super) fn wait_for_main(&mut self, process: &mut Stopped<'_>) -> Result<bool, TagError> {
        let program = Arc::clone(&self.program);
        let image = &program.image;
        let Some(main) = image.main().and_then(|address| image.function_at(address)) else {
            return Ok(false);
        };
        let (name, reason) = match self.wait_at(process, main) {
            Err(TagError::NoBreakpoint { name, reason }) => (name, reason),
            result => return result.map(|()| true),
        };
        let waits = match image.function_at(image.entry) {
            Some(entry) if entry.start == image.entry => match self.wait_at(process, entry) {
                Err(TagError::NoBreakpoint { .. }) => false,
                result => result.map(|()| true)?,
            },
            _ => false,
        };
        self.notices.push(Notice::NoMain { pid: process.pid, name, reason });
        Ok(waits)
    }

    /// Sets the breakpoint at which tags are inserted later.
    fn wait_at(&mut self, process: &mut Stopped<'_>, function: &Function) -> Result<(), TagError> {
        // Moving a function's instructions may change further functions close to the function.
        let here = self.program.bias.to_run(function.address());
        let near = here.saturating_sub(NEAR)..here.saturating_add(function.size + NEAR);
        let program = self.program.compare_again(process, &near, std::iter::empty());
        let shared = self.collector.shared();
        let breakpoint = Breakpoint::new(process, shared, &program, function, Purpose::Main)?;
        self.set_breakpoint(process, breakpoint, &program)
    }

    /// Inserts the tags; all threads are stopped.
    pub(super) fn insert(&mut self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        gs::check(process, self.code.sink)?;
        self.program = self.program.compare_again(process, &ALL, self.code.own_edits());
        self.code.change_restorers(process, self.collector.shared())?;
        self.hook_unwinder(process)?;
        let bias = self.program.bias;
        let chosen = |function: &Function| {
            let granularity = self.selection.granularity(function, None)?;
            (!self.code.restorers.is_in(function, bias)).then_some(granularity)
        };
        let mut plan = patch::plan(&self.program, chosen, self.code.sink);
        plan.resolve_calls(process, &self.program)?;
        plan.lookup = self.lookup_in(&self.program);
        let area =
            areas::reserve(process, self.collector.shared(), &self.program, plan.stub_bytes())?;
        let stubs = plan.stubs(area.start, FunctionId(0), &self.program)?;
        let program = Arc::clone(&self.program);
        self.add(process, area, stubs, &program)?;
        let has_libraries = self.selection.has_libraries();
        if has_libraries || self.awaits_unwinder(process)? {
            self.hook_linker(process)?;
        }
        if has_libraries {
            self.tag_libraries(process)?;
        }
        Ok(())
    }

    /// Sets a breakpoint where the dynamic linker reports that it has loaded a file.
    fn hook_linker(&mut self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        let address = linker::notifier(process)?;
        let (files, mapped) = code_files(process.pid)?;
        // A static program has the linker's function too, but does not call it.
        let may_have_it =
            |file: &&Mapping| address.is_some() || !file.is_same_file(&self.program.file);
        let files: Vec<&Mapping> = files.iter().filter(may_have_it).collect();
        let near = address.and_then(|address| file_at(&files, &mapped, address));
        for file in near.map_or(files, |file| vec![file]) {
            let no_sources = Selection::default();
            let Ok(loaded) =
                LoadedFile::open(process, file, &mapped, &no_sources, self.code.own_edits())
            else {
                continue;
            };
            let function = match address {
                None => linker::notifier_in(&loaded.image),
                Some(address) if loaded.contains(address) => {
                    loaded.image.function_at(loaded.bias.to_file(address).0)
                }
                Some(_) => None,
            };
            if let Some(function) = function {
                let shared = self.collector.shared();
                match Breakpoint::new(process, shared, &loaded, function, Purpose::Linker) {
                    Ok(breakpoint) => self.set_breakpoint(process, breakpoint, &loaded)?,
                    Err(TagError::NoBreakpoint { name, reason }) => {
                        let pid = process.pid;
                        self.notices.push(Notice::NoLaterLibraries { pid, name, reason });
                    }
                    Err(error) => return Err(error),
                }
                break;
            }
        }
        Ok(())
    }

    /// Writes stubs and inserts their jumps.
    pub(super) fn add(
        &mut self,
        process: &mut Stopped<'_>,
        area: Range<RunAddr>,
        planned: patch::GeneratedStubs,
        loaded: &LoadedFile,
    ) -> Result<(), TagError> {
        self.add_unwind_table(process, &planned.described, loaded)?;
        self.code.replace_lookup(process, &planned)?;
        let patch::GeneratedStubs { patched, refused, code, .. } = planned;
        self.refused.extend(refused);
        let bytes = code.len() as u64;
        if bytes > area.end - area.start - areas::COOKIE_BYTES {
            return Err(TagError::NoFreeRange(process.pid, bytes));
        }
        process.write(area.start, &code)?;
        let entries = patched.iter().flat_map(PatchedFunction::entries).collect();
        self.code.add_list(process, area.start + bytes..area.end - areas::COOKIE_BYTES, entries)?;
        let numbers: u32 = patched.iter().map(PatchedFunction::numbers).sum();
        self.collector.add(numbers as usize)?;
        self.collector.shared().record(&patch::overwritten(&patched))?;
        let code = &mut self.code;
        code.areas.push(area);
        // If inserting fails half-way, the jumps that are already there must be removed as well.
        let before = code.functions.len();
        code.record_jumps(&patched);
        code.functions.extend(patched);
        self.is_changed = true;
        code.restart_handler_returns(process)?;
        patch::tag(process, &code.functions[before..])
    }
}
