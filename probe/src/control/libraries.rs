//! Tags the libraries of a process whenever they are loaded.
//!
//! A library that was unloaded has lost its jumps. If it is loaded again at the same address, its
//! stubs are generated again and compared with the stubs in memory. If both are equal, only the
//! jumps are inserted again: stubs, numbers and counts stay. Otherwise it counts as another
//! library. Stubs of an unloaded library stay, because a thread may be in a stub.

use std::collections::BTreeSet;
use std::ops::Range;

use hmtt_files::tag_log::FunctionId;

use super::breakpoint::Purpose;
use super::loaded::LoadedFile;
use super::patch::{self, PatchedFunction, Plan};
use super::refused::{RefusalReason, Refused};
use super::{Libraries, Notice, TagError, Tags, areas};
use crate::address::RunAddr;
use crate::elf::Function;
use crate::ptrace::{FileId, Mapping, PtraceError, Stopped, code_files};

/// A file, and the address of its code.
pub(super) type Key = (Option<FileId>, RunAddr);

/// A library whose functions were tagged or could not be tagged.
#[derive(Clone, Debug)]
pub(super) struct Library {
    /// Indexes of its functions in [`PatchedCode::functions`].
    ///
    /// [`PatchedCode::functions`]: super::PatchedCode::functions
    patched: Range<usize>,
    /// Address of the library's stubs.
    stubs: RunAddr,
    /// Whether the library has not been unloaded since it was tagged.
    is_loaded: bool,
}

impl Libraries {
    /// The libraries of a child that has a copy of the process's memory.
    pub fn child(&self) -> Self {
        Libraries { known: self.known.clone(), unread: Vec::new() }
    }
}

impl Tags {
    /// Tags functions of libraries that were loaded since the last call.
    pub(super) fn tag_libraries(&mut self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        self.code.change_restorers(process, self.collector.shared())?;
        self.hook_unwinder(process)?;
        self.unwinding.set_link_maps(process)?;
        let (files, mapped) = code_files(process.pid)?;
        self.record_unloaded(process, &files);
        for file in files {
            let is_program = file.is_same_file(&self.program.file);
            if is_program || !self.selection.wants(&file.file_name()) {
                continue;
            }
            let key = (file.file, file.start);
            if self.libraries.known.get(&key).is_some_and(|library| library.is_loaded) {
                continue;
            }
            self.tag_library(process, &file, &mapped, key)?;
            // Libraries that cannot be tagged are recorded as well, so that they are not tried
            // again.
            let none = Library { patched: 0..0, stubs: RunAddr(0), is_loaded: true };
            self.libraries.known.entry(key).or_insert(none).is_loaded = true;
        }
        Ok(())
    }

    /// Records which libraries were unloaded or mapped again, and have lost their jumps.
    fn record_unloaded(&mut self, process: &Stopped<'_>, files: &[Mapping]) {
        let there: BTreeSet<Key> = files.iter().map(|file| (file.file, file.start)).collect();
        for (key, library) in
            self.libraries.known.iter_mut().filter(|(_, library)| library.is_loaded)
        {
            let patched = &mut self.code.functions[library.patched.clone()];
            let is_there = there.contains(key)
                && !patched
                    .iter()
                    .find(|function| !function.is_removed)
                    .is_some_and(|function| function.is_original(process));
            if !is_there {
                library.is_loaded = false;
                patched.iter_mut().for_each(|function| function.is_removed = true);
            }
        }
    }

    fn tag_library(
        &mut self,
        process: &mut Stopped<'_>,
        file: &Mapping,
        mapped: &[Mapping],
        key: Key,
    ) -> Result<(), TagError> {
        let name = file.file_name();
        let opened =
            LoadedFile::open(process, file, mapped, &self.selection, self.code.own_edits());
        let before = self.libraries.known.get(&key).cloned();
        let loaded = match opened {
            Ok(loaded) => loaded,
            Err(TagError::Ptrace(error)) => return Err(error.into()),
            Err(error) => {
                if before.is_none() {
                    self.libraries.unread.push((file.original_path(), error));
                }
                return Ok(());
            }
        };
        self.selection.record_matches(&loaded.image.functions, Some(&name));
        // A function with a breakpoint is not tagged.
        let has_breakpoint = |function: &Function| {
            let there = loaded.bias.to_run(function.address());
            let mut stopping = self
                .code
                .breakpoints
                .iter()
                .filter(|breakpoint| breakpoint.purpose != Purpose::Unwinder);
            stopping.any(|breakpoint| breakpoint.patched.address() == there)
        };
        let chosen = |function: &Function| {
            let granularity = self.selection.granularity(function, Some(&name))?;
            let is_left =
                has_breakpoint(function) || self.code.restorers.is_in(function, loaded.bias);
            (!is_left).then_some(granularity)
        };
        let mut plan = patch::plan(&loaded, chosen, self.code.sink);
        plan.resolve_calls(process, &loaded)?;
        plan.lookup = self.lookup_in(&loaded);
        if let Some(before) = before.filter(|library| !library.patched.is_empty())
            && self.is_as_before(process, &before, plan.clone(), &loaded)?
        {
            return self.tag_again(process, before.patched, &loaded);
        }
        let refused = loaded.image.functions.iter();
        let refused = refused
            .filter(|function| {
                has_breakpoint(function) && self.selection.matches(function, Some(&name))
            })
            .map(|function| Refused {
                function: function.clone(),
                reason: RefusalReason::Breakpoint,
            });
        let refused: Vec<Refused> = refused.collect();
        self.refused.extend(refused);
        self.tag_new(process, file, plan, &loaded, key)
    }

    fn tag_new(
        &mut self,
        process: &mut Stopped<'_>,
        file: &Mapping,
        plan: Plan,
        loaded: &LoadedFile,
        key: Key,
    ) -> Result<(), TagError> {
        let numbers = self.code.numbers();
        let shared = self.collector.shared();
        let path = file.original_path();
        if numbers as usize + plan.numbers() > self.max_functions {
            self.notices.push(Notice::TooManyFunctions(path));
            return Ok(());
        }
        let area = match areas::reserve(process, shared, loaded, plan.stub_bytes()) {
            Err(TagError::Ptrace(error @ PtraceError::Forbidden { .. })) => {
                self.notices.push(Notice::LibraryForbidden { path, error });
                return Ok(());
            }
            area => area?,
        };
        let stubs = area.start;
        let planned = plan.stubs(stubs, FunctionId(numbers), loaded)?;
        let first = self.code.functions.len();
        let added = self.add(process, area, planned, loaded);
        let patched = first..self.code.functions.len();
        self.libraries.known.insert(key, Library { patched, stubs, is_loaded: true });
        added
    }

    /// Whether a library that was loaded again would get the same stubs as before.
    fn is_as_before(
        &self,
        process: &Stopped<'_>,
        before: &Library,
        plan: Plan,
        loaded: &LoadedFile,
    ) -> Result<bool, TagError> {
        let first = self.code.functions[before.patched.start].id;
        let planned = plan.stubs(before.stubs, first, loaded)?;
        let mut there = vec![0; planned.code.len()];
        let are_there = process.read(before.stubs, &mut there).is_ok();
        let is_same = |(old, new): (&PatchedFunction, &PatchedFunction)| old.has_edits_of(new);
        let patched = &self.code.functions[before.patched.clone()];
        Ok(are_there
            && there == planned.code
            && patched.len() == planned.patched.len()
            && patched.iter().zip(&planned.patched).all(is_same))
    }

    /// Inserts the jumps into a library that was loaded again, except the jumps that were removed
    /// for the budget.
    fn tag_again(
        &mut self,
        process: &Stopped<'_>,
        patched: Range<usize>,
        loaded: &LoadedFile,
    ) -> Result<(), TagError> {
        let out: BTreeSet<FunctionId> = self.removed.iter().map(|function| function.id).collect();
        self.unwinding.set_link_map(process, loaded.bias)?;
        self.code.restart_handler_returns(process)?;
        let mut again = Vec::new();
        let functions = &mut self.code.functions[patched];
        for function in functions.iter_mut().filter(|function| !out.contains(&function.id)) {
            function.is_removed = false;
            again.push(function.clone());
        }
        patch::tag(process, &again)
    }
}
