//! Stores the open calls of a thread that are not in the running context: groups of frames, indexed
//! by the stack pointers of their innermost frames.
//!
//! A group holds frames that were left together: a context that was replaced by another one, or
//! frames that ended without an exit. Which of both is known only when one of its calls returns, or
//! when a function is entered at the place of its frames. Invariants: groups are never empty, no
//! two have the same innermost stack pointer, and there are at most [`GROUPS`] groups with
//! [`FRAMES`] frames in all; groups beyond these limits are ended, the oldest first.

use std::collections::{BTreeMap, VecDeque};

use super::{Frame, above};
use hmtt_format::tag_log::FunctionId;

/// Most suspended groups of a thread.
pub const GROUPS: usize = 4096;
/// Most groups that are searched for one frame.
const LOOKED_AT: usize = 16;
/// Most frames in the groups of a thread.
const FRAMES: usize = super::DEPTH;

/// Identifier of a group, unique in its thread.
pub(super) type Id = u64;

/// Frames that were left together.
#[derive(Debug)]
pub(super) struct Group<N> {
    /// Frames, from the outermost to the innermost.
    pub frames: VecDeque<Frame<N>>,
    /// Distance to be added to the stack pointers of all frames, modulo 2^32.
    pub shift: u32,
    /// Whether calls of the group ran again after it was left: it is another context and was not
    /// abandoned.
    pub is_context: bool,
    /// The context that ran before this one began on another stack; a signal handler returns to it.
    pub origin: Option<Id>,
    /// The group with the outer frames of the same stack.
    pub outer: Option<Id>,
}

impl<N: Copy> Group<N> {
    fn innermost(&self) -> u32 {
        self.frames.back().map_or(0, |frame| frame.sp.wrapping_add(self.shift))
    }

    /// Finds the index of the frame with a stack pointer.
    fn find(&self, sp: u32) -> Option<usize> {
        let stored = sp.wrapping_sub(self.shift);
        let place = self.frames.partition_point(|frame| above(frame.sp, stored) > 0);
        self.frames.get(place).filter(|frame| frame.sp == stored).map(|_| place)
    }
}

/// The suspended groups of a thread.
#[derive(Debug)]
pub(super) struct SuspendedGroups<N> {
    groups: BTreeMap<Id, Group<N>>,
    /// Groups by the stack pointers of their innermost frames.
    places: BTreeMap<u32, Id>,
    next: Id,
    frames: usize,
}

impl<N> Default for SuspendedGroups<N> {
    fn default() -> Self {
        SuspendedGroups { groups: BTreeMap::new(), places: BTreeMap::new(), next: 0, frames: 0 }
    }
}

impl<N: Copy> SuspendedGroups<N> {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds a group; returns its identifier and the groups that were removed to stay within the
    /// limits.
    pub fn add(&mut self, group: Group<N>) -> (Id, Vec<Group<N>>) {
        self.frames += group.frames.len();
        let id = self.next;
        self.next += 1;
        let mut removed = Vec::new();
        if let Some(other) = self.places.get(&group.innermost()).copied() {
            removed.extend(self.take(other));
        }
        self.places.insert(group.innermost(), id);
        self.groups.insert(id, group);
        while self.groups.len() > GROUPS || self.frames > FRAMES {
            let first = self.groups.keys().next().copied();
            removed.extend(first.and_then(|first| self.take(first)));
        }
        (id, removed)
    }

    /// Removes and returns a group.
    pub fn take(&mut self, id: Id) -> Option<Group<N>> {
        let group = self.groups.remove(&id)?;
        self.places.remove(&group.innermost());
        self.frames -= group.frames.len();
        Some(group)
    }

    /// Function and stack pointer of a group's innermost frame.
    pub fn innermost(&self, id: Id) -> Option<(FunctionId, u32)> {
        let group = self.groups.get(&id)?;
        Some((group.frames.back()?.number, group.innermost()))
    }

    pub fn is_context(&self, id: Id) -> bool {
        self.groups.get(&id).is_some_and(|group| group.is_context)
    }

    /// Finds the group whose innermost frame is the nearest one above a stack pointer; returns the
    /// group, and the index, function and stack pointer of that frame.
    pub fn above(&self, sp: u32) -> Option<(Id, usize, FunctionId, u32)> {
        let behind = self.places.range(sp.wrapping_add(1)..).next();
        let (_, id) = behind.or_else(|| self.places.iter().next())?;
        let (number, top) = self.innermost(*id)?;
        Some((*id, self.groups.get(id)?.frames.len() - 1, number, top))
    }

    /// Groups whose innermost frames are not above a stack pointer, the nearest first, and only a
    /// few: stacks do not overlap, so only the first can have frames there, unless a new stack was
    /// taken for a part of another one.
    fn below(&self, sp: u32) -> impl Iterator<Item = (Id, &Group<N>)> {
        let places = self.places.range(..=sp).rev().chain(self.places.iter().rev());
        places.take(LOOKED_AT).filter_map(|(_, id)| Some((*id, self.groups.get(id)?)))
    }

    /// The same as [`Self::above`], for the nearest frame that is not the innermost one of its
    /// group.
    pub fn around(&self, sp: u32) -> Option<(Id, usize, FunctionId, u32)> {
        let frame = |(id, group): (Id, &Group<N>)| {
            let stored = sp.wrapping_sub(group.shift);
            let frames = group.frames.partition_point(|frame| above(frame.sp, stored) > 0);
            let place = frames.checked_sub(1)?;
            let frame = group.frames[place];
            Some((id, place, frame.number, frame.sp.wrapping_add(group.shift)))
        };
        self.below(sp).filter_map(frame).min_by_key(|(_, _, _, top)| top.wrapping_sub(sp))
    }

    /// Finds a call by its function and stack pointer: its group, and its index in the group.
    pub fn find(&self, number: FunctionId, sp: u32) -> Option<(Id, usize)> {
        self.below(sp).find_map(|(id, group)| {
            let place = group.find(sp)?;
            (group.frames[place].number == number).then_some((id, place))
        })
    }

    /// Removes a group whose innermost frame is within a range of addresses, unless it is known to
    /// be a context.
    pub fn take_within(&mut self, first: u32, bytes: u32) -> Option<Group<N>> {
        let behind = first.wrapping_add(bytes);
        let (low, high) = if behind < first { (first, u32::MAX) } else { (first, behind) };
        let found = self.places.range(low..high).map(|(sp, id)| (*sp, *id));
        // Only the lowest group is checked, so that a context is not passed again in every search.
        let (sp, id) = { found }.next()?;
        (sp == first || !self.is_context(id)).then(|| self.take(id))?
    }

    /// Moves all frames of a group by a distance.
    pub fn shift(&mut self, id: Id, by: u32) {
        if let Some(mut group) = self.take(id) {
            group.shift = group.shift.wrapping_add(by);
            self.put(id, group);
        }
    }

    /// Puts a group back under its identifier.
    pub fn put(&mut self, id: Id, group: Group<N>) -> Option<Group<N>> {
        let other = self.places.get(&group.innermost()).copied();
        let removed = other.and_then(|other| self.take(other));
        self.frames += group.frames.len();
        self.places.insert(group.innermost(), id);
        self.groups.insert(id, group);
        removed
    }

    /// Removes all groups, the latest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Group<N>> + use<N> {
        self.places.clear();
        self.frames = 0;
        std::mem::take(&mut self.groups).into_values().rev()
    }
}
