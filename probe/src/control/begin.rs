//! Chosen functions of a program and its libraries to tags in a process, when it is time for them.

use std::ops::Range;
use std::sync::Arc;

use super::edits::Edit;
use super::gate::{Gate, Purpose};
use super::loaded::{ALL, Loaded};
use super::patch::{self, Patched};
use super::{TagError, Tagged, areas, gs, linker};
use crate::elf::Function;
use crate::ptrace::{Mapping, code_files};
use crate::selection::Selection;

/// How far from a function what is changed for it may be, at most.
const NEAR: u64 = 4096;

/// The file that an address is in the memory of.
fn holder<'a>(files: &[&'a Mapping], mapped: &[Mapping], address: u64) -> Option<&'a Mapping> {
    let mapping = mapped.iter().find(|one| (one.start..one.end).contains(&address))?;
    files.iter().find(|file| file.is_same_file(mapping)).copied()
}

impl Tagged {
    /// Puts a gate at `main`, if it is known.
    pub(super) fn wait_for_main(&mut self) -> Result<bool, TagError> {
        let image = &self.program.image;
        let Some(main) = image.main().and_then(|address| image.function_at(address)) else {
            return Ok(false);
        };
        // A jump that makes room for another one is near.
        let here = main.start.wrapping_add(self.program.bias);
        let near = here.saturating_sub(NEAR)..here.saturating_add(main.size + NEAR);
        let program = self.program.compared(&self.process, &near, std::iter::empty());
        let shared = self.collector.shared();
        let gate = Gate::new(&mut self.process, shared, &program, main, Purpose::Main)?;
        self.close(gate, &program)?;
        Ok(true)
    }

    /// Puts the tags in; all threads stand still.
    pub(super) fn begin(&mut self) -> Result<(), TagError> {
        gs::check(&self.process, self.sink)?;
        self.program = self.program.compared(&self.process, &ALL, self.own_edits());
        self.change_restorers()?;
        self.watch_unwinder()?;
        let bias = self.program.bias;
        let chosen = |function: &Function| {
            let grain = self.selection.grain(function, None)?;
            (!self.restorers.is_in(function, bias)).then_some(grain)
        };
        let mut plan = patch::plan(&self.program, chosen, self.sink);
        plan.look_through(&self.process, &self.program)?;
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
        if has_libraries || self.waits_for_unwinder()? {
            self.watch_linker()?;
        }
        if has_libraries {
            self.tag_libraries()?;
        }
        Ok(())
    }

    /// What we have changed in its instructions.
    pub(super) fn own_edits(&self) -> impl Iterator<Item = &Edit> {
        let gates = self.gates.iter().map(|gate| &gate.patched);
        let jumps = self.patched.iter().chain(gates).flat_map(Patched::edits);
        jumps.chain(self.restorers.edits())
    }

    /// Puts a gate where the dynamic linker says that it has loaded something.
    fn watch_linker(&mut self) -> Result<(), TagError> {
        let address = linker::notifier(&self.process)?;
        let (files, mapped) = code_files(self.process.pid)?;
        // A static program has that function too, and nobody who calls it.
        let may_have_it =
            |file: &&Mapping| address.is_some() || !file.is_same_file(&self.program.file);
        let files: Vec<&Mapping> = files.iter().filter(may_have_it).collect();
        let near = address.and_then(|address| holder(&files, &mapped, address));
        for file in near.map_or(files, |file| vec![file]) {
            let no_sources = Selection::default();
            let Ok(loaded) =
                Loaded::open(&self.process, file, &mapped, &no_sources, self.own_edits())
            else {
                continue;
            };
            let function = match address {
                None => linker::notifying(&loaded.image),
                Some(address) if loaded.holds(address) => {
                    loaded.image.function_at(address.wrapping_sub(loaded.bias))
                }
                Some(_) => None,
            };
            if let Some(function) = function {
                let gate = Gate::new(
                    &mut self.process,
                    self.collector.shared(),
                    &loaded,
                    function,
                    Purpose::Linker,
                )?;
                self.close(gate, &loaded)?;
                break;
            }
        }
        Ok(())
    }

    /// Puts stubs and jumps in.
    pub(super) fn add(
        &mut self,
        area: Range<u64>,
        planned: patch::Planned,
        loaded: &Loaded,
    ) -> Result<(), TagError> {
        self.describe(&planned.described, loaded)?;
        self.replace_lookup(&planned)?;
        let patch::Planned { patched, refused, code, .. } = planned;
        self.refused.extend(refused);
        let bytes = code.len() as u64;
        if bytes > area.end - area.start - areas::COOKIE_BYTES {
            return Err(TagError::NoRoom(self.process.pid, bytes));
        }
        self.process.write(area.start, &code)?;
        let entries = patched.iter().flat_map(Patched::entries).collect();
        self.add_list(area.start + bytes..area.end - areas::COOKIE_BYTES, entries)?;
        let numbers: u32 = patched.iter().map(Patched::numbers).sum();
        self.collector.add(numbers as usize)?;
        self.collector.note(&patch::overwritten(&patched))?;
        self.areas.push(area);
        // What is put in only in part is to be taken out too.
        let before = self.patched.len();
        self.note_jumps(&patched);
        self.patched.extend(patched);
        self.is_changed = true;
        self.look_up_again()?;
        patch::tag(&self.process, &self.patched[before..])
    }
}
