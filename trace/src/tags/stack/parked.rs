//! Calls of a thread that are open and not of the context that runs: groups of frames, found by the innermost one's
//! stack pointer.
//!
//! A group is what was left at once: a context that another one took the place of, or frames that an event further
//! out shows to be over. Which of both nobody knows until one of its calls returns, or something else is entered where
//! its frames are. Invariants: groups are never empty, no two have the same innermost stack pointer, and there are at
//! most [`GROUPS`] with [`FRAMES`] in all; those beyond are given up, the one that was left first before others.

use std::collections::{BTreeMap, VecDeque};

use super::{Frame, above};

/// Most groups of a thread.
pub const GROUPS: usize = 4096;
/// How many groups are searched for one frame.
const LOOKED_AT: usize = 16;
/// Most frames in them.
const FRAMES: usize = super::DEPTH;

/// Names a group for as long as it is there.
pub(super) type Id = u64;

/// Frames that were left at once.
#[derive(Debug)]
pub(super) struct Group<N> {
    /// From the outermost to the innermost.
    pub frames: VecDeque<Frame<N>>,
    /// Added to all their stack pointers.
    pub shift: u32,
    /// Whether calls of it went on after it was left: it is another context, not what was abandoned.
    pub is_context: bool,
    /// The context that ran before it began, far away: a signal handler returns there.
    pub origin: Option<Id>,
    /// The group that has the calls which its outermost one is within.
    pub outer: Option<Id>,
}

impl<N: Copy> Group<N> {
    fn innermost(&self) -> u32 {
        self.frames.back().map_or(0, |frame| frame.sp.wrapping_add(self.shift))
    }

    /// Place of the frame with a stack pointer.
    fn find(&self, sp: u32) -> Option<usize> {
        let stored = sp.wrapping_sub(self.shift);
        let place = self.frames.partition_point(|frame| above(frame.sp, stored) > 0);
        self.frames.get(place).filter(|frame| frame.sp == stored).map(|_| place)
    }
}

/// The groups of a thread.
#[derive(Debug)]
pub(super) struct Parked<N> {
    groups: BTreeMap<Id, Group<N>>,
    /// By the stack pointers of their innermost frames.
    places: BTreeMap<u32, Id>,
    next: Id,
    frames: usize,
}

impl<N> Default for Parked<N> {
    fn default() -> Self {
        Parked { groups: BTreeMap::new(), places: BTreeMap::new(), next: 0, frames: 0 }
    }
}

impl<N: Copy> Parked<N> {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds a group; those that have to give way for it come back.
    pub fn add(&mut self, group: Group<N>) -> (Id, Vec<Group<N>>) {
        self.frames += group.frames.len();
        let id = self.next;
        self.next += 1;
        let mut gone = Vec::new();
        if let Some(other) = self.places.get(&group.innermost()).copied() {
            gone.extend(self.take(other));
        }
        self.places.insert(group.innermost(), id);
        self.groups.insert(id, group);
        while self.groups.len() > GROUPS || self.frames > FRAMES {
            let first = self.groups.keys().next().copied();
            gone.extend(first.and_then(|first| self.take(first)));
        }
        (id, gone)
    }

    /// Takes a group out.
    pub fn take(&mut self, id: Id) -> Option<Group<N>> {
        let group = self.groups.remove(&id)?;
        self.places.remove(&group.innermost());
        self.frames -= group.frames.len();
        Some(group)
    }

    /// The innermost frame of a group: its function, and its stack pointer.
    pub fn innermost(&self, id: Id) -> Option<(u32, u32)> {
        let group = self.groups.get(&id)?;
        Some((group.frames.back()?.number, group.innermost()))
    }

    pub fn is_context(&self, id: Id) -> bool {
        self.groups.get(&id).is_some_and(|group| group.is_context)
    }

    /// The group whose innermost frame is the nearest one above a stack pointer: that frame's place, function and
    /// stack pointer.
    pub fn above(&self, sp: u32) -> Option<(Id, usize, u32, u32)> {
        let behind = self.places.range(sp.wrapping_add(1)..).next();
        let (_, id) = behind.or_else(|| self.places.iter().next())?;
        let (number, top) = self.innermost(*id)?;
        Some((*id, self.groups.get(id)?.frames.len() - 1, number, top))
    }

    /// Groups whose innermost frames are not above a stack pointer, the nearest first, but not many: stacks lie
    /// apart, so it is the first that may have something there, unless a new stack was taken for part of another.
    fn below(&self, sp: u32) -> impl Iterator<Item = (Id, &Group<N>)> {
        let places = self.places.range(..=sp).rev().chain(self.places.iter().rev());
        places.take(LOOKED_AT).filter_map(|(_, id)| Some((*id, self.groups.get(id)?)))
    }

    /// The same of the nearest frame that is not its group's innermost one.
    pub fn around(&self, sp: u32) -> Option<(Id, usize, u32, u32)> {
        let frame = |(id, group): (Id, &Group<N>)| {
            let stored = sp.wrapping_sub(group.shift);
            let frames = group.frames.partition_point(|frame| above(frame.sp, stored) > 0);
            let place = frames.checked_sub(1)?;
            let frame = group.frames[place];
            Some((id, place, frame.number, frame.sp.wrapping_add(group.shift)))
        };
        self.below(sp).filter_map(frame).min_by_key(|(_, _, _, top)| top.wrapping_sub(sp))
    }

    /// The group that has a call of a function with a stack pointer, and its place there.
    pub fn find(&self, number: u32, sp: u32) -> Option<(Id, usize)> {
        self.below(sp).find_map(|(id, group)| {
            let place = group.find(sp)?;
            (group.frames[place].number == number).then_some((id, place))
        })
    }

    /// Takes out a group whose innermost frame is within some addresses, unless it is known to be a context.
    pub fn take_within(&mut self, first: u32, bytes: u32) -> Option<Group<N>> {
        let behind = first.wrapping_add(bytes);
        let (low, high) = if behind < first { (first, u32::MAX) } else { (first, behind) };
        let found = self.places.range(low..high).map(|(sp, id)| (*sp, *id));
        // Only the lowest: a context is not looked past again and again.
        let (sp, id) = { found }.next()?;
        (sp == first || !self.is_context(id)).then(|| self.take(id))?
    }

    /// Moves all frames of a group.
    pub fn shift(&mut self, id: Id, by: u32) {
        if let Some(mut group) = self.take(id) {
            group.shift = group.shift.wrapping_add(by);
            self.put(id, group);
        }
    }

    /// Puts a group back where it was.
    pub fn put(&mut self, id: Id, group: Group<N>) -> Option<Group<N>> {
        let other = self.places.get(&group.innermost()).copied();
        let gone = other.and_then(|other| self.take(other));
        self.frames += group.frames.len();
        self.places.insert(group.innermost(), id);
        self.groups.insert(id, group);
        gone
    }

    /// Takes all out, the one that was left last first.
    pub fn drain(&mut self) -> impl Iterator<Item = Group<N>> + use<N> {
        self.places.clear();
        self.frames = 0;
        std::mem::take(&mut self.groups).into_values().rev()
    }
}
