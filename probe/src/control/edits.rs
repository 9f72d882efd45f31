//! Bytes of instructions to others, in an order in which the program is right after each step.

use super::shared::Overwritten;
use crate::disassembly::{JUMP_BYTES, SHORT_BYTES};
use crate::ptrace::{Process, PtraceError};
use crate::stubs::Few;
use crate::stubs::layout::PAGE_BYTES;

/// Edits within a page of each other are made at once, so many at most.
const GROUP: usize = 256;

/// What bytes are changed for, in the order in which that is done: a program is right after each. Branches no
/// longer lead to what jumps overwrite, then jumps leave bytes free, then islands are there, then what leads
/// to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Redirect,
    Near,
    Island,
    Short,
}

impl Rank {
    /// Of an edit, which is where a region begins or not.
    fn of(bytes: usize, is_start: bool) -> Rank {
        match (bytes as u64, is_start) {
            (SHORT_BYTES, _) => Rank::Short,
            (_, true) => Rank::Near,
            (bytes, false) if bytes == JUMP_BYTES as u64 => Rank::Island,
            _ => Rank::Redirect,
        }
    }
}

/// Bytes that are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    rank: Rank,
    pub address: u64,
    original: Few,
    new: Few,
}

impl Edit {
    /// `is_start`: a region begins there.
    pub fn new(address: u64, original: Few, new: Few, is_start: bool) -> Self {
        Edit { rank: Rank::of(new.len(), is_start), address, original, new }
    }

    /// Takes the edit back in a copy of memory that begins at an address, if it is there.
    pub fn undo_in(&self, start: u64, memory: &mut [u8]) {
        // The copy may have its end only, or its beginning.
        let skipped = start.saturating_sub(self.address).min(self.new.len() as u64) as usize;
        let Ok(first) = usize::try_from(self.address.saturating_sub(start)) else { return };
        let Some(memory) = memory.get_mut(first..) else { return };
        let kept = (self.new.len() - skipped).min(memory.len());
        let (new, original) = (&self.new[skipped..], &self.original[skipped..]);
        if kept != 0 && memory[..kept] == new[..kept] {
            memory[..kept].copy_from_slice(&original[..kept]);
        }
    }

    /// What stands there without it.
    pub fn original_bytes(&self) -> &[u8] {
        &self.original
    }

    /// What stands there when it is made.
    pub fn new_bytes(&self) -> &[u8] {
        &self.new
    }
}

/// What stands where edits are to be, in the order in which they are made.
pub(super) fn overwritten<'a>(edits: impl Iterator<Item = &'a Edit>) -> Vec<Overwritten> {
    let mut edits: Vec<&Edit> = edits.collect();
    edits.sort_by_key(|edit| edit.rank);
    let overwritten =
        |edit: &Edit| Overwritten { address: edit.address, bytes: edit.original, new: edit.new };
    edits.into_iter().map(overwritten).collect()
}

/// Makes them.
pub(super) fn put_in<'a>(
    process: &Process,
    edits: impl Iterator<Item = &'a Edit>,
) -> Result<(), PtraceError> {
    change(process, edits, Way::In, |there, edit| there.copy_from_slice(&edit.new))
}

/// Unmakes those that are still there. The addresses of those come back in whose place something else is by now: the
/// program's own doing, which stays.
pub(super) fn take_out<'a>(
    process: &Process,
    edits: impl Iterator<Item = &'a Edit>,
) -> Result<Vec<u64>, PtraceError> {
    let mut others = Vec::new();
    change(process, edits, Way::Out, |there, edit| {
        if *there == *edit.new {
            there.copy_from_slice(&edit.original);
        } else if *there != *edit.original {
            others.push(edit.address);
        }
    })?;
    Ok(others)
}

/// Which way edits go. Out: what is not mapped any more is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// Changes the places of all edits, those near each other at once.
fn change<'a>(
    process: &Process,
    edits: impl Iterator<Item = &'a Edit>,
    way: Way,
    mut change: impl FnMut(&mut [u8], &Edit),
) -> Result<(), PtraceError> {
    let mut edits: Vec<&Edit> = edits.collect();
    edits.sort_unstable_by_key(|edit| (edit.rank, edit.address));
    let mut ranks: Vec<&[&Edit]> = edits.chunk_by(|one, other| one.rank == other.rank).collect();
    if way == Way::Out {
        ranks.reverse();
    }
    let near = |one: &&Edit, other: &&Edit| other.address - one.address < PAGE_BYTES;
    let groups = ranks.into_iter().flat_map(|rank| rank.chunk_by(near));
    // A chain of near ones may be long: pages of it.
    for group in groups.flat_map(|group| group.chunks(GROUP)) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let end = last.address + last.new.len() as u64;
        let mut bytes = vec![0; (end - first.address) as usize];
        match process.read(first.address, &mut bytes) {
            Err(_) if way == Way::Out => continue,
            read => read?,
        }
        for edit in group {
            let at = (edit.address - first.address) as usize;
            change(&mut bytes[at..at + edit.new.len()], edit);
        }
        process.write(first.address, &bytes)?;
    }
    Ok(())
}
