//! Changes the code that signal handlers return to, so that returns find moved instructions.
//!
//! What is put there is in [`crate::stubs::restorer`]. Restorers are found by their bytes in files that are mapped
//! executable. One in C library form is left as it is if it has no unwind information: unwinders know it by its
//! bytes then. Frames of restorers that are left keep the addresses of stubs, see [`super::signal_frames`].

use std::collections::BTreeSet;
use std::ops::Range;

use super::edits::{self, Edit};
use super::shared::{Overwritten, tsc};
use super::{TagError, Tagged, areas, code};
use crate::elf::{Function, has_unwind_information};
use crate::ptrace::{FileId, Mapping, Process, PtraceError, mappings, open_mapped};
use crate::stubs::restorer::{self, Entry, FIRST_LIST, Kind, ROOM};
use crate::stubs::{StubError, jump};

/// Bytes of code that are looked through at once; restorers that lie across an end are found too.
const PIECE: u64 = 1 << 20;
const OVERLAP: u64 = 16;
/// Restorers that are changed in a process, and places that look like one: a C library and a runtime have one each.
const MOST: usize = 64;
const MOST_CANDIDATES: usize = 1 << 10;

/// A restorer that was changed.
#[derive(Clone, Debug)]
pub(super) struct Restorer {
    pub address: u64,
    /// Address behind its system call.
    end: u64,
    /// Where the code is that it jumps to.
    pub area: Range<u64>,
    edit: Edit,
}

/// The restorers of a process.
#[derive(Clone, Debug)]
pub(super) struct Restorers {
    all: Vec<Restorer>,
    /// Where the first list of moved instructions is; 0 if there is none.
    first_list: u64,
    /// Tells frames of ours from those of controllers before.
    pub session: u64,
    /// Whether a frame was changed since the process is tagged.
    pub has_resumptions: bool,
    /// What handlers return to and was looked for; some of it cannot be changed.
    pub searched: BTreeSet<u64>,
    looked_at: LookedAt,
}

impl Restorers {
    /// None yet.
    pub fn new() -> Self {
        let session = tsc().rotate_left(32) | 1;
        Restorers {
            all: Vec::new(),
            first_list: 0,
            session,
            has_resumptions: false,
            searched: BTreeSet::new(),
            looked_at: LookedAt::new(),
        }
    }

    /// Whether a handler that returns there finds moved instructions.
    pub fn holds(&self, address: u64) -> bool {
        self.all.iter().any(|one| one.address == address)
    }

    /// The restorer through which a thread is returning.
    pub fn around(&self, rip: u64) -> Option<&Restorer> {
        let is_it =
            |one: &&Restorer| one.area.contains(&rip) || (one.address < rip && rip < one.end);
        self.all.iter().find(is_it)
    }

    /// Whether one is in a function. `bias`: added to the function's address.
    pub fn is_in(&self, function: &Function, bias: u64) -> bool {
        let start = function.start.wrapping_add(bias);
        let range = start..start.wrapping_add(function.size);
        self.all.iter().any(|one| range.contains(&one.address))
    }

    /// What stands where they were changed.
    pub fn overwritten(&self) -> Vec<Overwritten> {
        edits::overwritten(self.edits())
    }

    /// Takes them out of a process or of a copy of it.
    /// The addresses come back at which the program has put something else.
    pub fn take_out(&self, process: &Process) -> Result<Vec<u64>, TagError> {
        Ok(edits::take_out(process, self.edits())?)
    }

    /// What was changed.
    pub fn edits(&self) -> impl Iterator<Item = &Edit> {
        self.all.iter().map(|one| &one.edit)
    }
}

/// Restorers in the code of files that is not known yet, the first ones if there are too many. What is mapped shared is
/// left alone: it is the file itself.
fn find(process: &Process, looked_at: &mut LookedAt) -> Result<Vec<(u64, Kind)>, TagError> {
    let mut found: Vec<(u64, Kind)> = Vec::new();
    let all = mappings(process.pid)?;
    let is_code = |one: &&Mapping| one.executable && one.path.is_absolute() && !one.shared;
    let now: LookedAt = all.iter().filter(is_code).map(key).collect();
    let new = all.iter().filter(is_code).filter(|one| !looked_at.contains(&key(one)));
    let (parts, _) = code::parts(process, &all, new, false);
    let mut candidates = 0;
    let mut piece = Vec::new();
    'all: for part in &parts {
        for start in part.range.clone().step_by(PIECE as usize) {
            piece.resize((part.range.end - start).min(PIECE + OVERLAP) as usize, 0);
            if process.read(start, &mut piece).is_err() {
                break;
            }
            for (at, kind) in restorer::find(&piece) {
                candidates += 1;
                if candidates > MOST_CANDIDATES || found.len() >= MOST {
                    break 'all;
                }
                if can_change(process, part.mapping, &all, start + at, kind) {
                    found.push((start + at, kind));
                }
            }
        }
    }
    *looked_at = now;
    found.sort_unstable_by_key(|(address, _)| *address);
    found.dedup_by_key(|(address, _)| *address);
    Ok(found)
}

/// What mappings were looked at.
type LookedAt = BTreeSet<(u64, u64, u64, Option<FileId>)>;

fn key(mapping: &Mapping) -> (u64, u64, u64, Option<FileId>) {
    (mapping.start, mapping.end, mapping.offset, mapping.file)
}

/// `mapped`: all mappings of the process.
fn can_change(
    process: &Process,
    mapping: &Mapping,
    mapped: &[Mapping],
    address: u64,
    kind: Kind,
) -> bool {
    let offset = address - mapping.start + mapping.offset;
    let read = |address, bytes: &mut [u8]| process.read(address, bytes).is_ok();
    let file = || open_mapped(process.pid, mapping, mapped, read);
    kind == Kind::Short || file().is_ok_and(|file| has_unwind_information(&file, offset))
}

impl Tagged {
    /// Changes all restorers that are not; all threads are stopped.
    pub(super) fn change_restorers(&mut self) -> Result<(), TagError> {
        for (address, kind) in find(&self.process, &mut self.restorers.looked_at)? {
            if self.restorers.holds(address) || self.restorers.all.len() >= MOST {
                continue;
            }
            match self.change_restorer(address, kind) {
                // Frames that are returned from there stay as the kernel has made them.
                Err(TagError::NoRoom(..) | TagError::Ptrace(PtraceError::Forbidden { .. })) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn change_restorer(&mut self, address: u64, kind: Kind) -> Result<(), TagError> {
        // Some memory cannot be written to, whoever does it.
        let mut original = [0; 5];
        self.process.read(address, &mut original)?;
        match self.process.write(address, &original) {
            Err(PtraceError::System { .. }) => return Ok(()),
            written => written?,
        }
        let shared = self.collector.shared();
        let area = areas::reserve_near(&mut self.process, shared, address, ROOM)?;
        let call = address + kind.call_at();
        let code = restorer::code(area.start, self.restorers.session, call);
        let at = area.start;
        let code = code.map_err(|error| StubError { at, reason: error.to_string() })?;
        self.process.write(area.start, &code)?;
        let first = self.restorers.first_list;
        self.process.write(area.start + FIRST_LIST, &first.to_le_bytes())?;
        let new = jump(address, area.start);
        let edit = Edit::new(address, original.into(), new.into(), true);
        self.collector.note(&edits::overwritten([&edit].into_iter()))?;
        self.areas.push(area.clone());
        self.process.restorers.push(address);
        self.restorers.all.push(Restorer { address, end: call + 2, area, edit: edit.clone() });
        Ok(edits::put_in(&self.process, [&edit].into_iter())?)
    }

    /// Adds a list of moved instructions; `area`: where there is room for it.
    pub(super) fn add_list(
        &mut self,
        area: Range<u64>,
        mut entries: Vec<Entry>,
    ) -> Result<(), TagError> {
        entries.sort_unstable();
        entries.dedup_by_key(|one| one.original);
        let at = area.start.next_multiple_of(8);
        let list = restorer::list(&entries, self.restorers.first_list);
        if at + list.len() as u64 > area.end {
            return Err(TagError::NoRoom(self.process.pid, list.len() as u64));
        }
        self.process.write(at, &list)?;
        self.restorers.first_list = at;
        for one in &self.restorers.all {
            self.process.write(one.area.start + FIRST_LIST, &at.to_le_bytes())?;
        }
        Ok(())
    }

    /// Lets threads that are returning from handlers begin that once more: what they have looked up may have
    /// changed.
    pub(super) fn look_up_again(&self) -> Result<(), TagError> {
        for thread in self.process.threads.keys() {
            let registers = self.process.registers(*thread)?;
            let is_in_call = registers.orig_rax.cast_signed() >= 0;
            if let Some(one) = self.restorers.around(registers.rip).filter(|_| !is_in_call) {
                let rip = one.address;
                let registers = libc::user_regs_struct { rip, ..registers };
                self.process.set_registers(*thread, registers)?;
            }
        }
        Ok(())
    }
}
