//! Changes restorers, the code that signal handlers return to, so that returns to overwritten
//! instructions reach the moved ones.
//!
//! [`crate::stubs::restorer`] generates the new code. Restorers are found by their bytes in files
//! that are mapped executable. A restorer in the form of the C library stays unchanged if it has no
//! unwind information, because unwinders then recognise it by its bytes. Signal frames that return
//! to an unchanged restorer keep the addresses of stubs, see [`super::signal_frames`].

use std::collections::BTreeSet;
use std::ops::Range;

use super::edits::{self, Edit};
use super::shared::{Overwritten, Shared, tsc};
use super::{PatchedCode, TagError, areas, code};
use crate::address::{LoadBias, RunAddr};
use crate::elf::{Function, has_unwind_information};
use crate::ptrace::{FileId, Mapping, PtraceError, Stopped, mappings, open_mapped};
use crate::stubs::restorer::{self, AREA_BYTES, Entry, FIRST_LIST, Kind};
use crate::stubs::{StubError, jump};

/// Bytes of code that are searched at once. Two pieces overlap by `OVERLAP` bytes, so that a
/// restorer at their border is found.
const PIECE: u64 = 1 << 20;
const OVERLAP: u64 = 16;
/// Maximum number of restorers that are changed in a process, and of places that are checked. A C
/// library and a language runtime have one restorer each.
pub(super) const MOST: usize = 64;
const MOST_CANDIDATES: usize = 1 << 10;

/// A restorer that was changed.
#[derive(Clone, Debug)]
pub(super) struct Restorer {
    pub address: RunAddr,
    /// Address behind the restorer's system call.
    end: RunAddr,
    /// Memory of the code that the restorer jumps to.
    pub area: Range<RunAddr>,
    edit: Edit,
}

/// The restorers of a process.
#[derive(Clone, Debug)]
pub(super) struct Restorers {
    all: Vec<Restorer>,
    /// Address of the first list of moved instructions; 0 if there is none.
    first_list: RunAddr,
    /// Random number of this controller. It distinguishes signal frames that this controller has
    /// changed from frames that an earlier controller has changed.
    pub session: u64,
    /// Whether a signal frame was changed since the process was tagged.
    pub has_resumptions: bool,
    /// Return addresses of handlers that were searched for restorers. Not every restorer found can
    /// be changed.
    pub searched: BTreeSet<RunAddr>,
    searched_mappings: SearchedMappings,
}

impl Restorers {
    /// The state before any restorer is changed.
    pub fn new() -> Self {
        let session = tsc().rotate_left(32) | 1;
        Restorers {
            all: Vec::new(),
            first_list: RunAddr(0),
            session,
            has_resumptions: false,
            searched: BTreeSet::new(),
            searched_mappings: SearchedMappings::new(),
        }
    }

    /// Whether the restorer at an address is changed.
    pub fn contains(&self, address: RunAddr) -> bool {
        self.all.iter().any(|restorer| restorer.address == address)
    }

    /// The restorer that a thread at `rip` is executing, in its original or its added code.
    pub fn around(&self, rip: RunAddr) -> Option<&Restorer> {
        let is_near = |restorer: &&Restorer| {
            restorer.area.contains(&rip) || (restorer.address < rip && rip < restorer.end)
        };
        self.all.iter().find(is_near)
    }

    /// Whether a function contains a changed restorer. `bias`: load bias of the function's file.
    pub fn is_in(&self, function: &Function, bias: LoadBias) -> bool {
        let start = bias.to_run(function.address());
        let range = start..start.wrapping_add(function.size);
        self.all.iter().any(|restorer| range.contains(&restorer.address))
    }

    /// Original and new bytes of the changed restorers.
    pub fn overwritten(&self) -> Vec<Overwritten> {
        edits::overwritten(self.edits())
    }

    /// Restores the restorers in a process or in a copy of it. Returns the addresses where the
    /// program has overwritten a restorer.
    pub fn remove_jumps(&self, process: &Stopped<'_>) -> Result<Vec<RunAddr>, TagError> {
        Ok(edits::remove(process, self.edits())?)
    }

    /// Edits of the changed restorers.
    pub fn edits(&self) -> impl Iterator<Item = &Edit> {
        self.all.iter().map(|restorer| &restorer.edit)
    }
}

/// Finds restorers in code of files that was not searched yet. If there are too many, only the
/// first ones are returned. Shared mappings are skipped: a change in one would change the file.
fn find(
    process: &Stopped<'_>,
    searched_mappings: &mut SearchedMappings,
) -> Result<Vec<(RunAddr, Kind)>, TagError> {
    let mut places: Vec<(RunAddr, Kind)> = Vec::new();
    let mapped = mappings(process.pid)?;
    let is_code =
        |mapping: &&Mapping| mapping.executable && mapping.path.is_absolute() && !mapping.shared;
    let now: SearchedMappings = mapped.iter().filter(is_code).map(key).collect();
    let new =
        mapped.iter().filter(is_code).filter(|mapping| !searched_mappings.contains(&key(mapping)));
    let (parts, _) = code::parts(process, &mapped, new, false);
    let mut candidates = 0;
    let mut piece = Vec::new();
    'all: for part in &parts {
        for start in (part.range.start.0..part.range.end.0).step_by(PIECE as usize) {
            let start = RunAddr(start);
            piece.resize((part.range.end - start).min(PIECE + OVERLAP) as usize, 0);
            if process.read(start, &mut piece).is_err() {
                break;
            }
            for (at, kind) in restorer::find(&piece) {
                candidates += 1;
                if candidates > MOST_CANDIDATES || places.len() >= MOST {
                    break 'all;
                }
                if can_change(process, part.mapping, &mapped, start + at, kind) {
                    places.push((start + at, kind));
                }
            }
        }
    }
    *searched_mappings = now;
    places.sort_unstable_by_key(|(address, _)| *address);
    places.dedup_by_key(|(address, _)| *address);
    Ok(places)
}

/// Mappings that were searched.
type SearchedMappings = BTreeSet<(RunAddr, RunAddr, u64, Option<FileId>)>;

fn key(mapping: &Mapping) -> (RunAddr, RunAddr, u64, Option<FileId>) {
    (mapping.start, mapping.end, mapping.offset, mapping.file)
}

/// Whether a restorer can be changed. `mapped`: all mappings of the process.
fn can_change(
    process: &Stopped<'_>,
    mapping: &Mapping,
    mapped: &[Mapping],
    address: RunAddr,
    kind: Kind,
) -> bool {
    let offset = address - mapping.start + mapping.offset;
    let read = |address, bytes: &mut [u8]| process.read(address, bytes).is_ok();
    let file = || open_mapped(process.pid, mapping, mapped, read);
    kind == Kind::Short || file().is_ok_and(|file| has_unwind_information(&file, offset))
}

impl PatchedCode {
    /// Changes all restorers that are not changed yet; all threads are stopped.
    pub(super) fn change_restorers(
        &mut self,
        process: &mut Stopped<'_>,
        shared: &Shared,
    ) -> Result<(), TagError> {
        for (address, kind) in find(process, &mut self.restorers.searched_mappings)? {
            if self.restorers.contains(address) || self.restorers.all.len() >= MOST {
                continue;
            }
            match self.change_restorer(process, shared, address, kind) {
                // Signal frames that lead to this restorer stay as the kernel has made them.
                Err(
                    TagError::NoFreeRange(..) | TagError::Ptrace(PtraceError::Forbidden { .. }),
                ) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn change_restorer(
        &mut self,
        process: &mut Stopped<'_>,
        shared: &Shared,
        address: RunAddr,
        kind: Kind,
    ) -> Result<(), TagError> {
        // Some mappings cannot be written at all, for example sealed ones.
        let mut original = [0; 5];
        process.read(address, &mut original)?;
        match process.write(address, &original) {
            Err(PtraceError::System { .. }) => return Ok(()),
            written => written?,
        }
        let area = areas::reserve_near(process, shared, address, AREA_BYTES)?;
        let call = address + kind.call_at();
        let code = restorer::code(area.start, self.restorers.session, call);
        let code = code.map_err(StubError::encoding(area.start.0))?;
        process.write(area.start, &code)?;
        let first = self.restorers.first_list;
        process.write(area.start + FIRST_LIST, &first.0.to_le_bytes())?;
        let new = jump(address.0, area.start.0);
        let edit = Edit::new(address, original.into(), new.into(), true);
        shared.record(&edits::overwritten([&edit].into_iter()))?;
        self.areas.push(area.clone());
        process.record_restorer(address);
        self.restorers.all.push(Restorer { address, end: call + 2, area, edit: edit.clone() });
        Ok(edits::insert(process, [&edit].into_iter())?)
    }

    /// Adds a list of moved instructions. `area`: memory for the list.
    pub(super) fn add_list(
        &mut self,
        process: &Stopped<'_>,
        area: Range<RunAddr>,
        mut entries: Vec<Entry>,
    ) -> Result<(), TagError> {
        entries.sort_unstable();
        entries.dedup_by_key(|entry| entry.original);
        let at = area.start.next_multiple_of(8);
        let list = restorer::list(&entries, self.restorers.first_list);
        if at + list.len() as u64 > area.end {
            return Err(TagError::NoFreeRange(process.pid, list.len() as u64));
        }
        process.write(at, &list)?;
        self.restorers.first_list = at;
        for patched_restorer in &self.restorers.all {
            process.write(patched_restorer.area.start + FIRST_LIST, &at.0.to_le_bytes())?;
        }
        Ok(())
    }

    /// Lets threads that are in a restorer execute it again from its start, because the lists that
    /// it has read may have changed.
    pub(super) fn restart_handler_returns(&self, process: &Stopped<'_>) -> Result<(), TagError> {
        for thread in process.threads.keys() {
            let registers = process.registers(*thread)?;
            let is_in_call = registers.orig_rax.cast_signed() >= 0;
            if let Some(patched_restorer) =
                self.restorers.around(RunAddr(registers.rip)).filter(|_| !is_in_call)
            {
                let rip = patched_restorer.address.0;
                let registers = libc::user_regs_struct { rip, ..registers };
                process.set_registers(*thread, registers)?;
            }
        }
        Ok(())
    }
}
