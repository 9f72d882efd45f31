//! Inserts the tags of a program, and watches for its `main` and for the libraries that it loads.

use std::ops::Range;
use std::sync::Arc;

use super::breakpoint::{Breakpoint, Purpose};
use super::edits::Edit;
use super::loaded::{ALL, LoadedFile};
use super::patch::{self, PatchedFunction};
use super::{TagError, Tagged, areas, gs, linker};
use crate::address::RunAddr;
use crate::elf::Function;
use crate::ptrace::{Mapping, code_files};
use crate::selection::Selection;

/// Largest distance between a function and the bytes that are changed for it.
const NEAR: u64 = 4096;

/// The file that is mapped at an address.
fn file_at<'a>(files: &[&'a Mapping], mapped: &[Mapping], address: RunAddr) -> Option<&'a Mapping> {
    let mapping = mapped.iter().find(|one| (one.start..one.end).contains(&address))?;
    files.iter().find(|file| file.is_same_file(mapping)).copied()
}

impl Tagged {
    /// Sets a breakpoint at `main`. Returns whether `main` is known.
    pub(super) fn wait_for_main(&mut self) -> Result<bool, TagError> {
        let image = &self.program.image;
        let Some(main) = image.main().and_then(|address| image.function_at(address)) else {
            return Ok(false);
        };
        // Moving a function's instructions may change other functions close to it.
        let here = self.program.bias.to_run(main.address());
        let near = here.saturating_sub(NEAR)..here.saturating_add(main.size + NEAR);
        let program = self.program.compare_again(&self.process, &near, std::iter::empty());
        let shared = self.collector.shared();
        let breakpoint = Breakpoint::new(&mut self.process, shared, &program, main, Purpose::Main)?;
        self.set_breakpoint(breakpoint, &program)?;
        Ok(true)
    }

    /// Inserts the tags; all threads are stopped.
    pub(super) fn insert_tags(&mut self) -> Result<(), TagError> {
        gs::check(&self.process, self.sink)?;
        self.program = self.program.compare_again(&self.process, &ALL, self.own_edits());
        self.change_restorers()?;
        self.hook_unwinder()?;
        let bias = self.program.bias;
        let chosen = |function: &Function| {
            let granularity = self.selection.granularity(function, None)?;
            (!self.restorers.is_in(function, bias)).then_some(granularity)
        };
        let mut plan = patch::plan(&self.program, chosen, self.sink);
        plan.resolve_calls(&self.process, &self.program)?;
        plan.lookup = self.lookup_in(&self.program);
        let area = areas::reserve(
            &mut self.process,
            self.collector.shared(),
            &self.program,
            plan.stub_bytes(),
        )?;
        let stubs = plan.stubs(area.start, 0, &self.program)?;
        let program = Arc::clone(&self.program);
        self.add(area, stubs, &program)?;
        let has_libraries = self.selection.has_libraries();
        if has_libraries || self.awaits_unwinder()? {
            self.hook_linker()?;
        }
        if has_libraries {
            self.tag_libraries()?;
        }
        Ok(())
    }

    /// All edits of the process's code that tags have made.
    pub(super) fn own_edits(&self) -> impl Iterator<Item = &Edit> {
        let breakpoints = self.breakpoints.iter().map(|breakpoint| &breakpoint.patched);
        let jumps = self.patched.iter().chain(breakpoints).flat_map(PatchedFunction::edits);
        jumps.chain(self.restorers.edits())
    }

    /// Sets a breakpoint where the dynamic linker reports that it has loaded a file.
    fn hook_linker(&mut self) -> Result<(), TagError> {
        let address = linker::notifier(&self.process)?;
        let (files, mapped) = code_files(self.process.pid)?;
        // A static program has that function too, but does not call it.
        let may_have_it =
            |file: &&Mapping| address.is_some() || !file.is_same_file(&self.program.file);
        let files: Vec<&Mapping> = files.iter().filter(may_have_it).collect();
        let near = address.and_then(|address| file_at(&files, &mapped, address));
        for file in near.map_or(files, |file| vec![file]) {
            let no_sources = Selection::default();
            let Ok(loaded) =
                LoadedFile::open(&self.process, file, &mapped, &no_sources, self.own_edits())
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
                let breakpoint = Breakpoint::new(
                    &mut self.process,
                    self.collector.shared(),
                    &loaded,
                    function,
                    Purpose::Linker,
                )?;
                self.set_breakpoint(breakpoint, &loaded)?;
                break;
            }
        }
        Ok(())
    }

    /// Writes stubs and inserts their jumps.
    pub(super) fn add(
        &mut self,
        area: Range<RunAddr>,
        planned: patch::GeneratedStubs,
        loaded: &LoadedFile,
    ) -> Result<(), TagError> {
        self.add_unwind_table(&planned.described, loaded)?;
        self.replace_lookup(&planned)?;
        let patch::GeneratedStubs { patched, refused, code, .. } = planned;
        self.refused.extend(refused);
        let bytes = code.len() as u64;
        if bytes > area.end - area.start - areas::COOKIE_BYTES {
            return Err(TagError::NoFreeRange(self.process.pid, bytes));
        }
        self.process.write(area.start, &code)?;
        let entries = patched.iter().flat_map(PatchedFunction::entries).collect();
        self.add_list(area.start + bytes..area.end - areas::COOKIE_BYTES, entries)?;
        let numbers: u32 = patched.iter().map(PatchedFunction::numbers).sum();
        self.collector.add(numbers as usize)?;
        self.collector.record(&patch::overwritten(&patched))?;
        self.areas.push(area);
        // Jumps that were inserted only in part must be removed as well.
        let before = self.patched.len();
        self.record_jumps(&patched);
        self.patched.extend(patched);
        self.is_changed = true;
        self.restart_handler_returns()?;
        patch::tag(&self.process, &self.patched[before..])
    }
}
