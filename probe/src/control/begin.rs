//! Chosen functions of a program and its libraries to tags in a process, when it is time for them.

use std::ops::Range;
use std::path::PathBuf;

use super::gate::{Gate, Purpose};
use super::loaded::Loaded;
use super::patch::{self, Patched};
use super::{TagError, Tagged, linker};
use crate::elf::{Function, Image};

impl Tagged {
    /// Puts a gate at `main`, if it is known.
    pub(super) fn wait_for_main(&mut self) -> Result<bool, TagError> {
        let image = &self.program.image;
        let Some(main) = image.main().and_then(|address| image.function_at(address)) else {
            return Ok(false);
        };
        let gate = Gate::new(&mut self.process, &self.program, main, Purpose::Main)?;
        self.close(gate)?;
        Ok(true)
    }

    /// Puts the tags in; all threads stand still.
    pub(super) fn begin(&mut self) -> Result<(), TagError> {
        let chosen = |function: &Function| self.selection.grain(function, None);
        let mut plan = patch::plan(&self.program, chosen, self.sink);
        plan.look_through(&self.process, &self.program)?;
        let area = self.program.reserve(&mut self.process, plan.stub_bytes())?;
        let stubs = plan.stubs(area.start, 0, &self.program)?;
        self.add(area, stubs)?;
        if self.selection.has_libraries() {
            self.watch_linker()?;
            self.tag_libraries()?;
        }
        Ok(())
    }

    /// Puts a gate where the dynamic linker says that it has loaded something.
    fn watch_linker(&mut self) -> Result<(), TagError> {
        let address = linker::notifier(&self.process)?;
        let paths = linker::files(&self.process)?.into_keys();
        // A static program has that function too, and nobody who calls it.
        let may_have_it = |path: &PathBuf| address.is_some() || *path != self.program.image.path;
        for image in paths.filter(may_have_it).filter_map(|path| Image::read(&path).ok()) {
            let Ok(loaded) = Loaded::find(&self.process, image) else { continue };
            let function = match address {
                None => linker::notifying(&loaded.image),
                Some(address) if loaded.holds(address) => {
                    loaded.image.function_at(address.wrapping_sub(loaded.bias))
                }
                Some(_) => None,
            };
            if let Some(function) = function {
                let gate = Gate::new(&mut self.process, &loaded, function, Purpose::Linker)?;
                self.close(gate)?;
                break;
            }
        }
        Ok(())
    }

    /// Tags functions of libraries that were not there before.
    pub(super) fn tag_libraries(&mut self) -> Result<(), TagError> {
        for (path, start) in linker::files(&self.process)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_known = path == self.program.image.path || !self.selection.wants(&name);
            if is_known || !self.known.insert((path.clone(), start)) {
                continue;
            }
            // What is mapped but no library is not meant.
            let Ok(mut image) = Image::read(&path) else { continue };
            if self.selection.has_sources() && image.find_sources().is_err() {
                continue;
            }
            let Ok(loaded) = Loaded::find(&self.process, image) else { continue };
            // A gate stays what it is.
            let gated = |function: &Function| {
                let there = function.start.wrapping_add(loaded.bias);
                self.gates.iter().any(|gate| gate.patched.address() == there)
            };
            let chosen = |function: &Function| {
                let grain = self.selection.grain(function, Some(&name))?;
                (!gated(function)).then_some(grain)
            };
            let refused = loaded
                .image
                .functions
                .iter()
                .filter(|one| gated(one) && self.selection.matches(one, Some(&name)));
            let why = "the dynamic linker tells there what it loads";
            self.refused.extend(refused.map(|one| (one.clone(), why.to_owned())));
            let mut plan = patch::plan(&loaded, chosen, self.sink);
            plan.look_through(&self.process, &loaded)?;
            let area = loaded.reserve(&mut self.process, plan.stub_bytes())?;
            let numbers: u32 = self.patched.iter().map(Patched::numbers).sum();
            let stubs = plan.stubs(area.start, numbers, &loaded)?;
            self.add(area, stubs)?;
        }
        Ok(())
    }

    /// Puts stubs and jumps in.
    fn add(&mut self, area: Range<u64>, planned: patch::Planned) -> Result<(), TagError> {
        let patch::Planned { patched, refused, code } = planned;
        self.refused.extend(refused);
        let bytes = code.len() as u64;
        if bytes > area.end - area.start {
            return Err(TagError::NoRoom(self.process.pid, bytes));
        }
        self.process.write(area.start, &code)?;
        let numbers: u32 = patched.iter().map(Patched::numbers).sum();
        self.collector.add(numbers as usize)?;
        self.collector.note(&area, &patch::overwritten(&patched))?;
        self.areas.push(area);
        // What is put in only in part is to be taken out too.
        let before = self.patched.len();
        self.patched.extend(patched);
        self.is_changed = true;
        patch::tag(&self.process, &self.patched[before..])
    }
}
