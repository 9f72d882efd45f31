//! A thread's events to the calls of its contexts: the stack it began with, those of its coroutines and of its signal
//! handlers.
//!
//! Events do not say which stack they are on. What is certain: an exit is of the open call with its stack pointer, and
//! an entry is of no call that is open. So frames that an event shows not to be running are kept for a while
//! ([`parked`]), and an exit that is one of theirs goes on there. An entry's caller is the nearest frame above it in
//! the context that runs, or the innermost one of another context, whichever is at a distance that its function's
//! frames are known to have; calls that are near are taken to be of the context that runs.
//!
//! Invariants: every event belongs to one context; each tick is one call's own at most, that of the innermost one of
//! the context that runs, so that a thread's own times never add up to more than it ran; an event costs time that
//! does not depend on how deep stacks are, but for logarithms.

use hmtt_format::tag_log::TagEvent;

use super::parked::{Group, Id, Parked};
use super::{Call, DEPTH, Exit, Frame, Listener, REGION, above};
use crate::tags::hash::FastMap;

/// Nearer than this to an entry, a frame may be its caller's whatever the function is.
const NEAR: u32 = 1024;
/// Largest frame that is learnt, so that another stack is not taken for one.
const LARGEST: u32 = 32 << 10;
/// Frames that go on at once when a context does: those further out follow when these have returned.
const AT_ONCE: usize = 64;
/// A stack that moves does so by at least the smallest stack that a goroutine has.
const SMALLEST: u32 = 2048;

/// The context that runs.
#[derive(Debug)]
struct Here<N> {
    frames: Vec<Frame<N>>,
    shift: u32,
    is_context: bool,
    outer: Option<Id>,
    origin: Option<Id>,
    /// What was left when an entry came above all frames: if it is on a stack that has moved, this is its caller's.
    before: Option<Id>,
}

impl<N> Default for Here<N> {
    fn default() -> Self {
        let (frames, outer, origin, before) = Default::default();
        Here { frames, shift: 0, is_context: false, outer, origin, before }
    }
}

/// Where the caller of an entry is.
enum Caller {
    /// In the context that runs, of which so many frames are above the entry. Whether that is likely.
    Here(usize, bool),
    /// In another one, at a place in its group.
    Parked(Id, usize),
    /// Nowhere: a stack without frames, far from the others.
    Nowhere,
}

/// The stacks of a thread.
#[derive(Debug)]
pub struct Stacks<N> {
    here: Here<N>,
    parked: Parked<N>,
    /// How far below a function's frame those it calls were, of those that are large.
    reach: FastMap<u32, u32>,
    /// Of the last event.
    sp: u32,
    now: u64,
    /// Exits without a frame.
    pub unmatched: u64,
    /// Exits in code that another function shares: of the frame, but not by its own exit.
    pub shared: u64,
}

impl<N> Default for Stacks<N> {
    fn default() -> Self {
        let (here, parked, reach) = Default::default();
        Stacks { here, parked, reach, sp: 0, now: 0, unmatched: 0, shared: 0 }
    }
}

impl<N: Copy> Here<N> {
    /// How many frames are above a stack pointer.
    fn above(&self, sp: u32) -> usize {
        let stored = sp.wrapping_sub(self.shift);
        self.frames.partition_point(|frame| above(frame.sp, stored) > 0)
    }

    /// How far a frame is above a stack pointer.
    fn distance(&self, place: usize, sp: u32) -> u32 {
        self.frames[place].sp.wrapping_add(self.shift).wrapping_sub(sp)
    }

    /// The innermost frame runs from now on.
    #[inline]
    fn run(&mut self, now: u64) {
        if let Some(top) = self.frames.last_mut() {
            top.since = now;
        }
    }

    /// The innermost frame does not run any more.
    #[inline]
    fn rest(&mut self, now: u64) {
        if let Some(top) = self.frames.last_mut() {
            top.own += now - top.since;
        }
    }
}

impl<N: Copy> Stacks<N> {
    /// Takes an event of a function.
    #[inline]
    pub fn event(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        // Processors whose counters differ do not make times negative.
        self.now = self.now.max(event.tsc);
        match event.is_exit {
            true => self.exit(event, listener),
            false => self.enter(event, listener),
        }
    }

    /// Takes an event of a block: what its function called is over.
    pub fn block(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        self.now = self.now.max(event.tsc);
        match self.caller(event.sp.wrapping_sub(1)) {
            Caller::Here(frames, _) => drop(self.leave(frames, event.sp, listener)),
            Caller::Parked(id, place) => self.switch(id, place, listener),
            Caller::Nowhere => return,
        }
        self.sp = event.sp;
    }

    #[inline]
    fn enter(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        let stored = event.sp.wrapping_sub(self.here.shift);
        let top = self.here.frames.last().map(|top| above(top.sp, stored));
        match top {
            Some(distance) if distance > 0 && distance.unsigned_abs() <= NEAR => {
                if !self.parked.is_empty() {
                    self.sweep(event.sp, distance.unsigned_abs(), listener);
                }
            }
            _ => self.find_caller(event.sp, listener),
        }
        let (TagEvent { number, sp, .. }, now) = (event, self.now);
        self.sp = sp;
        self.here.rest(now);
        let caller = self.here.frames.last().map(|frame| frame.note);
        let note = listener.enter(caller, number, now);
        let sp = sp.wrapping_sub(self.here.shift);
        self.here.frames.push(Frame {
            number,
            sp,
            entered: now,
            left: now,
            since: now,
            own: 0,
            note,
        });
    }

    /// Makes the context run that an entry is in, with its caller the innermost one.
    #[cold]
    fn find_caller(&mut self, sp: u32, listener: &mut impl Listener<Note = N>) {
        match self.caller(sp) {
            Caller::Here(frames, is_likely) => {
                let left = self.leave(frames, sp, listener);
                if frames == 0 {
                    self.here = Here { before: left.or(self.here.before), ..Here::default() };
                }
                let distance = frames.checked_sub(1).map(|place| self.here.distance(place, sp));
                let distance = distance.filter(|_| is_likely).unwrap_or(1);
                self.sweep(sp, distance, listener);
            }
            Caller::Parked(id, place) => {
                self.switch(id, place, listener);
                self.sweep(sp, 1, listener);
            }
            Caller::Nowhere => {
                let is_context = self.here.is_context;
                let origin = self.park(0, is_context, listener);
                self.here = Here { origin, ..Here::default() };
                self.sweep(sp, 1, listener);
            }
        }
        if let Some(place) = self.here.frames.len().checked_sub(1) {
            let (distance, number) =
                (self.here.distance(place, sp), self.here.frames[place].number);
            if (NEAR + 1..=LARGEST).contains(&distance) {
                let reach = self.reach.entry(number).or_default();
                *reach = distance.max(*reach);
            }
        }
        if self.here.frames.len() >= DEPTH {
            while !self.here.frames.is_empty() {
                self.close(Exit::Abandoned, listener);
            }
        }
    }

    fn caller(&self, sp: u32) -> Caller {
        let known = |number: u32| self.reach.get(&number).copied().unwrap_or_default();
        let frames = self.here.above(sp);
        let here = frames.checked_sub(1).map(|place| {
            let distance = self.here.distance(place, sp);
            (distance, distance <= known(self.here.frames[place].number))
        });
        let here = here.filter(|(distance, _)| *distance <= REGION);
        let likely = |(id, place, number, top): (Id, usize, u32, u32)| {
            let distance = u32::try_from(above(top, sp)).ok().filter(|far| *far <= REGION)?;
            Some((id, place, distance, distance <= known(number)))
        };
        let other = self.parked.above(sp).and_then(likely);
        let within = || self.parked.around(sp).and_then(likely);
        let other = other
            .filter(|(_, _, distance, _)| *distance <= NEAR)
            .or_else(|| within().filter(|(_, _, distance, _)| *distance <= NEAR).or(other));
        let near = |distance: u32| distance <= NEAR;
        let nearest = here.map_or(u32::MAX, |(distance, _)| distance);
        match (here, other.filter(|(_, _, distance, _)| *distance < nearest)) {
            (Some((distance, _)), Some((id, place, other, _))) if near(distance) => {
                match near(other) && self.parked.is_context(id) {
                    true => Caller::Parked(id, place),
                    false => Caller::Here(frames, true),
                }
            }
            (Some((distance, _)), None) if near(distance) => Caller::Here(frames, true),
            (_, Some((id, place, distance, _))) if near(distance) => Caller::Parked(id, place),
            (Some((_, true)), _) => Caller::Here(frames, true),
            (_, Some((id, place, _, true))) => Caller::Parked(id, place),
            (Some(_), _) => Caller::Here(frames, false),
            (None, Some((id, place, ..))) if self.here.outer == Some(id) => {
                Caller::Parked(id, place)
            }
            _ if above(sp, self.sp).unsigned_abs() <= REGION => Caller::Here(0, false),
            _ => Caller::Nowhere,
        }
    }

    #[inline]
    fn exit(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        let stored = event.sp.wrapping_sub(self.here.shift);
        let is_top = self.here.frames.last().is_some_and(|top| top.sp == stored);
        if !is_top && !self.find_exit(event, listener) {
            self.unmatched += 1;
            return;
        }
        self.sp = event.sp;
        let number = self.here.frames.last().map(|frame| frame.number);
        self.shared += u64::from(number != Some(event.number));
        self.close(Exit::Returned, listener);
        if self.here.frames.is_empty() {
            self.settle(listener);
        }
    }

    /// Makes the call the innermost one that an exit is of; false: there is none.
    #[cold]
    fn find_exit(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) -> bool {
        let TagEvent { number, sp, .. } = event;
        let frames = self.here.above(sp);
        let stored = sp.wrapping_sub(self.here.shift);
        if self.here.frames.get(frames).is_some_and(|frame| frame.sp == stored) {
            self.leave(frames + 1, sp, listener);
            return true;
        }
        if let Some((id, place)) = self.parked.find(number, sp) {
            let group = self.parked.take(id);
            self.park(0, true, listener);
            return self.revive(id, group, Some(place), listener);
        }
        if let Some(by) = self.moved(number, sp) {
            if let Some(before) = self.here.before.filter(|_| self.here.frames.is_empty()) {
                let group = self.parked.take(before);
                self.revive(before, group, None, listener);
            }
            self.here.shift = self.here.shift.wrapping_add(by);
            if let Some(outer) = self.here.outer {
                self.parked.shift(outer, by);
            }
            return true;
        }
        if above(sp, self.sp).unsigned_abs() <= REGION {
            self.leave(frames, sp, listener);
            self.sp = sp;
        }
        false
    }

    /// By how much the stack of the context that runs has moved, if an exit says that it has: as those of goroutines
    /// do when they grow.
    fn moved(&self, number: u32, sp: u32) -> Option<u32> {
        let (function, was) = match self.here.frames.last() {
            Some(top) => (top.number, top.sp.wrapping_add(self.here.shift)),
            None => self.parked.innermost(self.here.before?)?,
        };
        let by = sp.wrapping_sub(was);
        let is_far = by.cast_signed().unsigned_abs() >= SMALLEST && by.is_multiple_of(8);
        (function == number && is_far).then_some(by)
    }

    /// Closes the innermost frame.
    #[inline]
    fn close(&mut self, exit: Exit, listener: &mut impl Listener<Note = N>) {
        let now = self.now;
        self.here.rest(now);
        let Some(Frame { number, entered, own, note, .. }) = self.here.frames.pop() else { return };
        self.here.run(now);
        listener.leave(&Call { number, note, entered, left: now, own, exit, is_paused: false });
    }

    /// All calls of the context have returned: goes on where it was called from, or in the one that it interrupted.
    #[cold]
    fn settle(&mut self, listener: &mut impl Listener<Note = N>) {
        while self.here.frames.is_empty() {
            let next = self.here.outer.take().or_else(|| self.here.origin.take());
            let Some(next) = next else { return };
            let group = self.parked.take(next);
            self.revive(next, group, None, listener);
            if let Some(top) = self.here.frames.last() {
                self.sp = top.sp.wrapping_add(self.here.shift);
            }
        }
    }

    /// Leaves all frames of the context that runs but so many, which an event shows not to run. Near what is further
    /// out, or the event, they are over; elsewhere, they may be another context's.
    fn leave(&mut self, but: usize, sp: u32, listener: &mut impl Listener<Note = N>) -> Option<Id> {
        let outermost = self.here.frames.get(but)?.sp.wrapping_add(self.here.shift);
        let outer = but.checked_sub(1).map(|place| self.here.frames[place].sp);
        let outer = outer.map_or(sp, |outer| outer.wrapping_add(self.here.shift));
        if above(outer, outermost).unsigned_abs() > NEAR {
            return self.park(but, false, listener);
        }
        while self.here.frames.len() > but {
            self.close(Exit::Abandoned, listener);
        }
        None
    }

    /// Parks all frames of the context that runs but so many; if these are none, what it has further out, too.
    /// `is_context`: whether it may well go on.
    fn park(
        &mut self,
        but: usize,
        is_context: bool,
        listener: &mut impl Listener<Note = N>,
    ) -> Option<Id> {
        let now = self.now;
        if but >= self.here.frames.len() {
            return None;
        }
        self.here.rest(now);
        let mut frames = self.here.frames.split_off(but);
        self.here.run(now);
        for frame in frames.iter_mut().rev() {
            frame.left = now;
            listener.pause(frame.note, frame.number, now);
        }
        let Here { shift, outer, origin, .. } = &mut self.here;
        let whole = but == 0;
        let group = Group {
            frames: frames.into(),
            shift: *shift,
            is_context,
            outer: outer.take_if(|_| whole),
            origin: origin.take_if(|_| whole),
        };
        let (id, gone) = self.parked.add(group);
        gone.into_iter().for_each(|group| give_up(group, Exit::Abandoned, listener));
        Some(id)
    }

    /// Lets another context run.
    fn switch(&mut self, id: Id, place: usize, listener: &mut impl Listener<Note = N>) {
        // Before others are parked, which may cost the oldest.
        let group = self.parked.take(id);
        self.park(0, self.here.is_context, listener);
        self.revive(id, group, Some(place), listener);
    }

    /// Lets a group run that was taken out; what is further in than a place stays parked. False: it was not there.
    fn revive(
        &mut self,
        id: Id,
        group: Option<Group<N>>,
        place: Option<usize>,
        listener: &mut impl Listener<Note = N>,
    ) -> bool {
        let Some(mut group) = group else { return false };
        let kept = place.map_or(group.frames.len(), |place| place + 1);
        if kept < group.frames.len() {
            // The smaller part is moved, so that many such events take no more time than sorting does.
            let inner = if kept <= group.frames.len() / 2 {
                let outer = group.frames.drain(..kept).collect();
                std::mem::replace(&mut group.frames, outer)
            } else {
                group.frames.split_off(kept)
            };
            let (shift, is_context) = (group.shift, false);
            let inner = Group { frames: inner, shift, is_context, origin: None, outer: None };
            let (_, gone) = self.parked.add(inner);
            gone.into_iter().for_each(|group| give_up(group, Exit::Abandoned, listener));
        }
        let rest = group.frames.len().saturating_sub(AT_ONCE);
        let frames: Vec<Frame<N>> = group.frames.drain(rest..).collect();
        let (shift, origin) = (group.shift, group.origin);
        let outer = group.outer;
        self.here = Here { frames, shift, is_context: true, outer, origin, before: None };
        if rest > 0 {
            (self.here.outer, self.here.origin) = (Some(id), None);
            let gone = self.parked.put(id, Group { is_context: true, ..group });
            gone.into_iter().for_each(|group| give_up(group, Exit::Abandoned, listener));
        }
        for frame in &self.here.frames {
            listener.resume(frame.note, frame.number, self.now);
        }
        self.here.run(self.now);
        true
    }

    /// Gives groups up whose frames are where something else is.
    fn sweep(&mut self, sp: u32, bytes: u32, listener: &mut impl Listener<Note = N>) {
        while let Some(group) = self.parked.take_within(sp, bytes) {
            give_up(group, Exit::Abandoned, listener);
        }
    }

    /// Closes all frames.
    pub fn close_all(&mut self, exit: Exit, listener: &mut impl Listener<Note = N>) {
        while !self.here.frames.is_empty() {
            self.close(exit, listener);
        }
        let mut waits = [self.here.outer, self.here.origin].into_iter().flatten().next();
        self.here = Here::default();
        while let Some(group) = waits.and_then(|id| self.parked.take(id)) {
            waits = group.outer.or(group.origin);
            give_up(group, exit, listener);
        }
        for group in self.parked.drain() {
            let exit = if group.is_context { exit } else { Exit::Abandoned };
            give_up(group, exit, listener);
        }
    }
}

/// Ends calls when they were left.
fn give_up<N: Copy>(group: Group<N>, exit: Exit, listener: &mut impl Listener<Note = N>) {
    for Frame { number, entered, left, own, note, .. } in group.frames.into_iter().rev() {
        listener.leave(&Call { number, note, entered, left, own, exit, is_paused: true });
    }
}
