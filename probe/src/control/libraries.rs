//! Libraries of a process to tags in them, each time they are loaded.
//!
//! A library that was unloaded has lost its jumps. If it comes back to the same place, what its tags would be is found
//! out anew, and if that is what there already is, the same jumps are put in: stubs, numbers and counts stay those of
//! the first time. Otherwise it is another library. Stubs of what was unloaded stay, since a thread may be in one.

use std::collections::BTreeSet;
use std::ops::Range;

use super::error::chain;
use super::gate::Purpose;
use super::loaded::Loaded;
use super::patch::{self, Patched, Plan, Refused};
use super::{TagError, Tagged, areas};
use crate::elf::Function;
use crate::ptrace::{FileId, Mapping, PtraceError, code_files};

/// A file, and where its code is.
pub(super) type Key = (Option<FileId>, u64);

/// A library that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Library {
    /// Which of [`Tagged::patched`] are its functions.
    patched: Range<usize>,
    /// Where its stubs begin.
    stubs: u64,
    /// Whether it has been loaded ever since.
    is_loaded: bool,
}

impl Tagged {
    /// Tags functions of libraries that were not there before.
    pub(super) fn tag_libraries(&mut self) -> Result<(), TagError> {
        self.change_restorers()?;
        self.watch_unwinder()?;
        self.name_objects()?;
        let (files, mapped) = code_files(self.process.pid)?;
        self.note_unloaded(&files);
        for file in files {
            let is_program = file.is_same_file(&self.program.file);
            if is_program || !self.selection.wants(&file.file_name()) {
                continue;
            }
            let key = (file.file, file.start);
            if self.libraries.get(&key).is_some_and(|one| one.is_loaded) {
                continue;
            }
            self.tag_library(&file, &mapped, key)?;
            // Also one that cannot be tagged.
            let none = Library { patched: 0..0, stubs: 0, is_loaded: true };
            self.libraries.entry(key).or_insert(none).is_loaded = true;
        }
        Ok(())
    }

    /// Takes note of libraries that are gone, or have lost their jumps: those may be elsewhere now, or something else in
    /// their place.
    fn note_unloaded(&mut self, files: &[Mapping]) {
        let there: BTreeSet<Key> = files.iter().map(|file| (file.file, file.start)).collect();
        for (key, library) in self.libraries.iter_mut().filter(|(_, one)| one.is_loaded) {
            let patched = &mut self.patched[library.patched.clone()];
            let is_there = there.contains(key)
                && !patched
                    .iter()
                    .find(|one| !one.is_out)
                    .is_some_and(|one| one.is_original(&self.process));
            if !is_there {
                library.is_loaded = false;
                patched.iter_mut().for_each(|one| one.is_out = true);
            }
        }
    }

    fn tag_library(
        &mut self,
        file: &Mapping,
        mapped: &[Mapping],
        key: Key,
    ) -> Result<(), TagError> {
        let name = file.file_name();
        let opened = Loaded::open(&self.process, file, mapped, &self.selection, self.own_edits());
        let before = self.libraries.get(&key).cloned();
        let loaded = match opened {
            Ok(loaded) => loaded,
            Err(TagError::Ptrace(error)) => return Err(error.into()),
            Err(error) => {
                if before.is_none() {
                    self.unread.push((file.original_path(), chain(&error)));
                }
                return Ok(());
            }
        };
        self.selection.note(&loaded.image.functions, Some(&name));
        // A gate stays what it is.
        let gated = |function: &Function| {
            let there = function.start.wrapping_add(loaded.bias);
            let mut gates = self.gates.iter().filter(|gate| gate.purpose != Purpose::Unwinder);
            gates.any(|gate| gate.patched.address() == there)
        };
        let chosen = |function: &Function| {
            let grain = self.selection.grain(function, Some(&name))?;
            let is_left = gated(function) || self.restorers.is_in(function, loaded.bias);
            (!is_left).then_some(grain)
        };
        let mut plan = patch::plan(&loaded, chosen, self.sink);
        plan.look_through(&self.process, &loaded)?;
        plan.lookup = self.lookup_in(&loaded);
        if let Some(before) = before.filter(|one| !one.patched.is_empty())
            && self.is_as_before(&before, plan.clone(), &loaded)?
        {
            return self.tag_again(before.patched, &loaded);
        }
        let refused = loaded.image.functions.iter();
        let refused = refused
            .filter(|one| gated(one) && self.selection.matches(one, Some(&name)))
            .map(|one| Refused {
                function: one.clone(),
                reason: "the dynamic linker tells there what it loads".to_owned(),
                is_of_process: false,
            });
        let refused: Vec<Refused> = refused.collect();
        self.refused.extend(refused);
        self.tag_new(file, plan, &loaded, key)
    }

    fn tag_new(
        &mut self,
        file: &Mapping,
        plan: Plan,
        loaded: &Loaded,
        key: Key,
    ) -> Result<(), TagError> {
        let numbers: u32 = self.patched.iter().map(Patched::numbers).sum();
        let shared = self.collector.shared();
        let path = file.original_path();
        if numbers as usize + plan.numbers() > self.at_most {
            self.notices.push(format!("{} is not tagged: too many functions", path.display()));
            return Ok(());
        }
        let area = match areas::reserve(&mut self.process, shared, loaded, plan.stub_bytes()) {
            Err(TagError::Ptrace(error @ PtraceError::Forbidden { .. })) => {
                self.notices.push(format!("{} is not tagged: {error}", path.display()));
                return Ok(());
            }
            area => area?,
        };
        let stubs = area.start;
        let planned = plan.stubs(stubs, numbers, loaded)?;
        let first = self.patched.len();
        let added = self.add(area, planned, loaded);
        let patched = first..self.patched.len();
        self.libraries.insert(key, Library { patched, stubs, is_loaded: true });
        added
    }

    /// Whether a library that was loaded once more would get the stubs that there are.
    fn is_as_before(
        &self,
        before: &Library,
        plan: Plan,
        loaded: &Loaded,
    ) -> Result<bool, TagError> {
        let first = self.patched[before.patched.start].number;
        let planned = plan.stubs(before.stubs, first, loaded)?;
        let mut there = vec![0; planned.code.len()];
        let are_there = self.process.read(before.stubs, &mut there).is_ok();
        let is_same = |(old, new): (&Patched, &Patched)| old.has_edits_of(new);
        let patched = &self.patched[before.patched.clone()];
        Ok(are_there
            && there == planned.code
            && patched.len() == planned.patched.len()
            && patched.iter().zip(&planned.patched).all(is_same))
    }

    /// Puts the jumps into a library that was loaded once more, but those that were taken out.
    fn tag_again(&mut self, patched: Range<usize>, loaded: &Loaded) -> Result<(), TagError> {
        let out: BTreeSet<usize> = self.taken_out.iter().map(|one| one.number).collect();
        self.name_object(loaded.bias)?;
        self.look_up_again()?;
        let mut again = Vec::new();
        for number in patched.filter(|number| !out.contains(number)) {
            self.patched[number].is_out = false;
            again.push(self.patched[number].clone());
        }
        patch::tag(&self.process, &again)
    }
}
