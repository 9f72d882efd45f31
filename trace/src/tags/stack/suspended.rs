//! Stores the open calls of a thread that are not in the running context. They are groups of
//! frames, indexed by the stack pointers of their innermost frames.
//!
//! The frames of a group were left together. Either their context was replaced by another one, or
//! their calls ended without an exit. In the first case, one of the group's calls returns later. In
//! the second case, a function is entered later at the place of the group's frames.
//!
//! Invariants: groups are never empty, no two groups have the same innermost stack pointer, and
//! there are at most [`GROUPS`] groups with [`FRAMES`] frames in all. If there are more, the oldest
//! groups are ended.

use std::collections::{BTreeMap, VecDeque};

use super::{Frame, above};
use hmtt_files::tag_log::FunctionId;

/// Maximum number of suspended groups of a thread.
pub const GROUPS: usize = 4096;
/// Maximum number of groups that are searched for a frame.
const LOOKED_AT: usize = 16;
/// Maximum number of frames in the groups of a thread.
const FRAMES: usize = super::DEPTH;

/// Identifier of a group. It is unique in its thread, and increases with the time at which groups
/// were left.
pub(super) type Id = u64;

/// Frames of one stack that were left together.
#[derive(Debug)]
pub(super) struct Group<N> {
    /// Frames, from the outermost to the innermost.
    pub frames: VecDeque<Frame<N>>,
    /// Distance that must be added to the stack pointers of all frames, modulo 2^32.
    pub shift: u32,
    /// Whether the group is known or likely to be another context, whose calls were not abandoned.
    pub is_context: bool,
    /// The context that was running when this context began on a stack of its own. For a signal
    /// handler, this is the context to which it returns.
    pub origin: Option<Id>,
    /// The group with the outer frames of the same stack.
    pub outer: Option<Id>,
}

impl<N: Copy> Group<N> {
    /// Current stack pointer of the innermost frame.
    fn innermost(&self) -> u32 {
        self.frames.back().map_or(0, |frame| frame.sp.wrapping_add(self.shift))
    }

    /// Index of the frame with the stack pointer `sp`.
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
    /// Identifiers of groups, by the current stack pointers of their innermost frames.
    places: BTreeMap<u32, Id>,
    /// Identifier of the next group.
    next: Id,
    /// Number of frames in all groups.
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

    /// Adds a group. Returns its identifier, and the groups that were removed: a group with the
    /// same innermost stack pointer, and the oldest groups beyond the limits.
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

    /// Removes a group and returns it; `None` if there is no such group.
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

    /// Whether a group is known or likely to be another context.
    pub fn is_context(&self, id: Id) -> bool {
        self.groups.get(&id).is_some_and(|group| group.is_context)
    }

    /// Finds the group whose innermost frame is nearest above the stack pointer `sp`. Stack
    /// pointers wrap around: above the highest group is the lowest one. Returns the group, and the
    /// frame's index, function and stack pointer.
    pub fn above(&self, sp: u32) -> Option<(Id, usize, FunctionId, u32)> {
        let behind = self.places.range(sp.wrapping_add(1)..).next();
        let (_, id) = behind.or_else(|| self.places.iter().next())?;
        let (number, top) = self.innermost(*id)?;
        Some((*id, self.groups.get(id)?.frames.len() - 1, number, top))
    }

    /// Groups whose innermost frames are not above a stack pointer, the nearest first, and at most
    /// [`LOOKED_AT`] of them. Stacks do not overlap, so normally only the first group can have
    /// frames above the stack pointer. Other groups can if a new stack was mistaken for a part of
    /// another stack. Stack pointers wrap around: below the lowest group is the highest one.
    fn below(&self, sp: u32) -> impl Iterator<Item = (Id, &Group<N>)> {
        let places = self.places.range(..=sp).rev().chain(self.places.iter().rev());
        places.take(LOOKED_AT).filter_map(|(_, id)| Some((*id, self.groups.get(id)?)))
    }

    /// Finds the nearest frame above the stack pointer `sp` that is not the innermost frame of its
    /// group. Returns the same values as [`Self::above`].
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

    /// Finds a call by its function and stack pointer. Returns its group, and its index in the
    /// group.
    pub fn find(&self, number: FunctionId, sp: u32) -> Option<(Id, usize)> {
        self.below(sp).find_map(|(id, group)| {
            let place = group.find(sp)?;
            (group.frames[place].number == number).then_some((id, place))
        })
    }

    /// Removes the group with the lowest innermost frame in the `bytes` bytes from `first` on. A
    /// group that is a context stays, unless its innermost frame is at `first` itself.
    pub fn take_within(&mut self, first: u32, bytes: u32) -> Option<Group<N>> {
        let behind = first.wrapping_add(bytes);
        let (low, high) = if behind < first { (first, u32::MAX) } else { (first, behind) };
        let contexts = self.places.range(low..high).map(|(sp, id)| (*sp, *id));
        // Only the lowest group is checked. Otherwise each search would skip the same contexts
        // again.
        let (sp, id) = { contexts }.next()?;
        (sp == first || !self.is_context(id)).then(|| self.take(id))?
    }

    /// Adds `by` to the stack pointers of all frames of a group, modulo 2^32.
    pub fn shift(&mut self, id: Id, by: u32) {
        if let Some(mut group) = self.take(id) {
            group.shift = group.shift.wrapping_add(by);
            self.put(id, group);
        }
    }

    /// Adds a group again that was taken, under the same identifier. Removes and returns another
    /// group with the same innermost stack pointer.
    pub fn put(&mut self, id: Id, group: Group<N>) -> Option<Group<N>> {
        let other = self.places.get(&group.innermost()).copied();
        let removed = other.and_then(|other| self.take(other));
        self.frames += group.frames.len();
        self.places.insert(group.innermost(), id);
        self.groups.insert(id, group);
        removed
    }

    /// Removes all groups and returns them, the latest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Group<N>> + use<N> {
        self.places.clear();
        self.frames = 0;
        std::mem::take(&mut self.groups).into_values().rev()
    }
}
