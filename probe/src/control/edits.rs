//! Changes bytes of a process's code, in an order in which the program is correct after each step.

use super::shared::Overwritten;
use crate::address::RunAddr;
use crate::disassembly::{JUMP_BYTES, SHORT_BYTES};
use crate::ptrace::{PtraceError, Stopped};
use crate::stubs::InlineBytes;
use crate::stubs::layout::PAGE_BYTES;

/// Maximum number of edits that are made with one write. Such edits are within a page of each
/// other.
const GROUP: usize = 256;

/// Purpose of an edit. Edits are inserted in the order of the variants, so that the program is
/// correct after each edit: branches are redirected away from bytes that jumps overwrite; jumps
/// leave bytes of the functions unused; islands are written to these bytes; short jumps lead to the
/// islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Redirect,
    Near,
    Island,
    Short,
}

impl Rank {
    /// The rank of an edit. `is_start`: a region begins there.
    fn new(bytes: usize, is_start: bool) -> Rank {
        match (bytes as u64, is_start) {
            (SHORT_BYTES, _) => Rank::Short,
            (_, true) => Rank::Near,
            (bytes, false) if bytes == JUMP_BYTES as u64 => Rank::Island,
            _ => Rank::Redirect,
        }
    }
}

/// A change of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    rank: Rank,
    pub address: RunAddr,
    original: InlineBytes,
    new: InlineBytes,
}

impl Edit {
    /// An edit at an address. `is_start`: a region begins there.
    pub fn new(address: RunAddr, original: InlineBytes, new: InlineBytes, is_start: bool) -> Self {
        Edit { rank: Rank::new(new.len(), is_start), address, original, new }
    }

    /// Undoes the edit in a copy of memory that begins at `start`. A copy with other bytes than the
    /// new ones stays unchanged.
    pub fn undo_in(&self, start: RunAddr, memory: &mut [u8]) {
        // The copy may begin or end in the middle of the edit.
        let skipped =
            start.offset_from(self.address).unwrap_or(0).min(self.new.len() as u64) as usize;
        let Ok(first) = usize::try_from(self.address.offset_from(start).unwrap_or(0)) else {
            return;
        };
        let Some(memory) = memory.get_mut(first..) else { return };
        let kept = (self.new.len() - skipped).min(memory.len());
        let (new, original) = (&self.new[skipped..], &self.original[skipped..]);
        if kept != 0 && memory[..kept] == new[..kept] {
            memory[..kept].copy_from_slice(&original[..kept]);
        }
    }

    /// The bytes before the edit.
    pub fn original_bytes(&self) -> &[u8] {
        &self.original
    }

    /// The bytes after the edit.
    pub fn new_bytes(&self) -> &[u8] {
        &self.new
    }
}

/// Original and new bytes of all edits, in the order in which they are inserted.
pub(super) fn overwritten<'a>(edits: impl Iterator<Item = &'a Edit>) -> Vec<Overwritten> {
    let mut edits: Vec<&Edit> = edits.collect();
    edits.sort_by_key(|edit| edit.rank);
    let overwritten =
        |edit: &Edit| Overwritten { address: edit.address, bytes: edit.original, new: edit.new };
    edits.into_iter().map(overwritten).collect()
}

/// Makes all edits.
pub(super) fn insert<'a>(
    process: &Stopped<'_>,
    edits: impl Iterator<Item = &'a Edit>,
) -> Result<(), PtraceError> {
    change(process, edits, Direction::Insert, |there, edit| there.copy_from_slice(&edit.new))
}

/// Undoes the edits. An edit that the program has overwritten is left alone. Returns the addresses
/// of such edits.
pub(super) fn remove<'a>(
    process: &Stopped<'_>,
    edits: impl Iterator<Item = &'a Edit>,
) -> Result<Vec<RunAddr>, PtraceError> {
    let mut others = Vec::new();
    change(process, edits, Direction::Remove, |there, edit| {
        if *there == *edit.new {
            there.copy_from_slice(&edit.original);
        } else if *there != *edit.original {
            others.push(edit.address);
        }
    })?;
    Ok(others)
}

/// Whether edits are inserted or removed. A removal skips memory that is no longer mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Insert,
    Remove,
}

/// Calls `change` with the memory of each edit. Edits that are close to each other are written
/// together.
fn change<'a>(
    process: &Stopped<'_>,
    edits: impl Iterator<Item = &'a Edit>,
    direction: Direction,
    mut change: impl FnMut(&mut [u8], &Edit),
) -> Result<(), PtraceError> {
    let mut edits: Vec<&Edit> = edits.collect();
    edits.sort_unstable_by_key(|edit| (edit.rank, edit.address));
    let mut ranks: Vec<&[&Edit]> = edits.chunk_by(|one, other| one.rank == other.rank).collect();
    if direction == Direction::Remove {
        ranks.reverse();
    }
    let near = |one: &&Edit, other: &&Edit| other.address - one.address < PAGE_BYTES;
    let groups = ranks.into_iter().flat_map(|rank| rank.chunk_by(near));
    // A chain of close edits may span many pages.
    for group in groups.flat_map(|group| group.chunks(GROUP)) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let end = last.address + last.new.len() as u64;
        let mut bytes = vec![0; (end - first.address) as usize];
        match process.read(first.address, &mut bytes) {
            Err(_) if direction == Direction::Remove => continue,
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
