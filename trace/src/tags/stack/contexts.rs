//! Assigns a thread's events to the calls of its contexts. A context is the thread's first stack, a
//! coroutine or a signal handler.
//!
//! Events do not state their stack. Two facts are certain: an exit belongs to the open call with
//! its stack pointer, and an entry begins a new call. So frames that an event shows not to be
//! running are kept ([`suspended`]), and an exit of such a frame resumes its context. The caller of
//! an entry has two candidates: the nearest frame above it in the running context, and the nearest
//! frame above it in another context. An entry within [`NEAR`] bytes of a frame of the running
//! context belongs to this context. Otherwise the candidate is chosen whose distance fits the known
//! frame sizes of its function.
//!
//! Invariants: every event belongs to one context. Each tick counts as own time of at most one
//! call, the innermost call of the running context. So the own times of a thread never add up to
//! more than its running time. The cost of an event grows at most with the logarithm of the depth
//! of stacks.

mod running;
mod switching;

use hmtt_files::tag_log::{FunctionId, TagEvent};

use self::running::RunningContext;
use self::switching::end_calls;
use super::suspended::{Id, SuspendedGroups};
use super::{Call, DEPTH, Exit, Frame, Listener, REGION, above};
use crate::tags::hash::FastMap;

/// A frame at most this far above an entry, in bytes, may be the caller's frame, whatever its
/// function.
const NEAR: u32 = 1024;
/// Largest frame size that is learnt, in bytes. A larger distance may lead to another stack.
const LARGEST: u32 = 32 << 10;
/// Maximum number of frames that are resumed together with their context. The outer frames are
/// resumed when these frames have returned.
const AT_ONCE: usize = 64;
/// Smallest distance by which a stack can move, in bytes: the size of the smallest stack of a
/// goroutine.
const SMALLEST: u32 = 2048;

/// The place of the frame that is the caller of an entry.
enum Caller {
    /// In the running context. Holds the number of its frames above the entry, and whether the
    /// innermost of these frames is likely to be the caller. With 0 frames, the entry is the
    /// outermost call of its stack.
    Running(usize, bool),
    /// In a suspended group. Holds the group, and the index of the frame in it.
    Suspended(Id, usize),
    /// No caller: the entry is on a stack without frames, far from the others.
    Unknown,
}

/// The contexts of a thread.
#[derive(Debug)]
pub struct Stacks<N> {
    running: RunningContext<N>,
    suspended: SuspendedGroups<N>,
    /// For each function with large frames, the greatest distance from its frame down to the frame
    /// of a callee, in bytes.
    reach: FastMap<FunctionId, u32>,
    /// Stack pointer of the last event.
    sp: u32,
    /// Time of the last event, in ticks. It never decreases.
    now: u64,
    /// Number of exits without an open frame.
    pub unmatched: u64,
    /// Number of exits in code that several functions share: the frame is known, but the exit has
    /// the number of another function.
    pub shared: u64,
}

impl<N> Default for Stacks<N> {
    fn default() -> Self {
        let (running, suspended, reach) = Default::default();
        Stacks { running, suspended, reach, sp: 0, now: 0, unmatched: 0, shared: 0 }
    }
}

impl<N: Copy> Stacks<N> {
    /// Processes an entry or exit of a function.
    #[inline]
    pub fn event(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        // The time stamp counters of processors may differ, but times must not decrease.
        self.now = self.now.max(event.tsc);
        if event.is_exit { self.exit(event, listener) } else { self.enter(event, listener) }
    }

    /// Processes an event of a block of `function`, which shows that all calls made by the function
    /// have ended. The block is reported only if the innermost call is a call of the function. It
    /// is not reported if the entry of the function was before the start of the log, or in a gap.
    pub fn block(
        &mut self,
        event: TagEvent,
        function: FunctionId,
        listener: &mut impl Listener<Note = N>,
    ) {
        self.now = self.now.max(event.tsc);
        match self.caller(event.sp.wrapping_sub(1)) {
            Caller::Running(frames, _) => drop(self.leave(frames, event.sp, listener)),
            Caller::Suspended(id, place) => self.switch(id, place, listener),
            Caller::Unknown => return,
        }
        self.sp = event.sp;
        if let Some(top) = self.running.frames.last().filter(|top| top.number == function) {
            listener.block(top.note, event.number, self.now);
        }
    }

    #[inline]
    fn enter(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        let stored = event.sp.wrapping_sub(self.running.shift);
        let top = self.running.frames.last().map(|top| above(top.sp, stored));
        match top {
            Some(distance) if distance > 0 && distance.unsigned_abs() <= NEAR => {
                if !self.suspended.is_empty() {
                    self.end_overwritten(event.sp, distance.unsigned_abs(), listener);
                }
            }
            _ => self.find_caller(event.sp, listener),
        }
        let (TagEvent { number, sp, .. }, now) = (event, self.now);
        self.sp = sp;
        self.running.stop(now);
        let caller = self.running.frames.last().map(|frame| frame.note);
        let note = listener.enter(caller, number, now);
        let sp = sp.wrapping_sub(self.running.shift);
        self.running.frames.push(Frame {
            number,
            sp,
            entered: now,
            left: now,
            since: now,
            own: 0,
            note,
        });
    }

    /// Switches to the context of an entry, and leaves the frames inside of the entry's caller.
    /// Then the caller is the innermost running frame.
    #[cold]
    fn find_caller(&mut self, sp: u32, listener: &mut impl Listener<Note = N>) {
        match self.caller(sp) {
            Caller::Running(frames, is_likely) => {
                let left = self.leave(frames, sp, listener);
                if frames == 0 {
                    self.running = RunningContext {
                        before: left.or(self.running.before),
                        ..RunningContext::default()
                    };
                }
                let distance = frames.checked_sub(1).map(|place| self.running.distance(place, sp));
                let distance = distance.filter(|_| is_likely).unwrap_or(1);
                self.end_overwritten(sp, distance, listener);
            }
            Caller::Suspended(id, place) => {
                self.switch(id, place, listener);
                self.end_overwritten(sp, 1, listener);
            }
            Caller::Unknown => {
                let is_context = self.running.is_context;
                let origin = self.suspend(0, is_context, listener);
                self.running = RunningContext { origin, ..RunningContext::default() };
                self.end_overwritten(sp, 1, listener);
            }
        }
        if let Some(place) = self.running.frames.len().checked_sub(1) {
            let (distance, number) =
                (self.running.distance(place, sp), self.running.frames[place].number);
            if (NEAR + 1..=LARGEST).contains(&distance) {
                let reach = self.reach.entry(number).or_default();
                *reach = distance.max(*reach);
            }
        }
        if self.running.frames.len() >= DEPTH {
            while !self.running.frames.is_empty() {
                self.close(Exit::Abandoned, listener);
            }
        }
    }

    /// Chooses the caller of an entry with stack pointer `sp`.
    fn caller(&self, sp: u32) -> Caller {
        let known = |number: FunctionId| self.reach.get(&number).copied().unwrap_or_default();
        let frames = self.running.above(sp);
        let running = frames.checked_sub(1).map(|place| {
            let distance = self.running.distance(place, sp);
            (distance, distance <= known(self.running.frames[place].number))
        });
        let running = running.filter(|(distance, _)| *distance <= REGION);
        let likely = |(id, place, number, top): (Id, usize, FunctionId, u32)| {
            let distance = u32::try_from(above(top, sp)).ok().filter(|far| *far <= REGION)?;
            Some((id, place, distance, distance <= known(number)))
        };
        let other = self.suspended.above(sp).and_then(likely);
        let within = || self.suspended.around(sp).and_then(likely);
        let other = other
            .filter(|(_, _, distance, _)| *distance <= NEAR)
            .or_else(|| within().filter(|(_, _, distance, _)| *distance <= NEAR).or(other));
        let near = |distance: u32| distance <= NEAR;
        let nearest = running.map_or(u32::MAX, |(distance, _)| distance);
        match (running, other.filter(|(_, _, distance, _)| *distance < nearest)) {
            (Some((distance, _)), Some((id, place, other, _))) if near(distance) => {
                if near(other) && self.suspended.is_context(id) {
                    Caller::Suspended(id, place)
                } else {
                    Caller::Running(frames, true)
                }
            }
            (Some((distance, _)), None) if near(distance) => Caller::Running(frames, true),
            (_, Some((id, place, distance, _))) if near(distance) => Caller::Suspended(id, place),
            (Some((_, true)), _) => Caller::Running(frames, true),
            (_, Some((id, place, _, true))) => Caller::Suspended(id, place),
            (Some(_), _) => Caller::Running(frames, false),
            (None, Some((id, place, ..))) if self.running.outer == Some(id) => {
                Caller::Suspended(id, place)
            }
            _ if above(sp, self.sp).unsigned_abs() <= REGION => Caller::Running(0, false),
            _ => Caller::Unknown,
        }
    }

    #[inline]
    fn exit(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        let stored = event.sp.wrapping_sub(self.running.shift);
        let is_top = self.running.frames.last().is_some_and(|top| top.sp == stored);
        if !is_top && !self.find_exit(event, listener) {
            self.unmatched += 1;
            return;
        }
        self.sp = event.sp;
        let number = self.running.frames.last().map(|frame| frame.number);
        self.shared += u64::from(number != Some(event.number));
        self.close(Exit::Returned, listener);
        if self.running.frames.is_empty() {
            self.resume_caller(listener);
        }
    }

    /// Makes the call of an exit the innermost running one. Returns false if there is no such call.
    #[cold]
    fn find_exit(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) -> bool {
        let TagEvent { number, sp, .. } = event;
        let frames = self.running.above(sp);
        let stored = sp.wrapping_sub(self.running.shift);
        if self.running.frames.get(frames).is_some_and(|frame| frame.sp == stored) {
            self.leave(frames + 1, sp, listener);
            return true;
        }
        if let Some((id, place)) = self.suspended.find(number, sp) {
            let group = self.suspended.take(id);
            self.suspend(0, true, listener);
            return self.resume_group(id, group, Some(place), listener);
        }
        if let Some(by) = self.moved(number, sp) {
            if let Some(before) = self.running.before.filter(|_| self.running.frames.is_empty()) {
                let group = self.suspended.take(before);
                self.resume_group(before, group, None, listener);
            }
            self.running.shift = self.running.shift.wrapping_add(by);
            if let Some(outer) = self.running.outer {
                self.suspended.shift(outer, by);
            }
            return true;
        }
        if above(sp, self.sp).unsigned_abs() <= REGION {
            self.leave(frames, sp, listener);
            self.sp = sp;
        }
        false
    }

    /// The distance by which the stack of the running context has moved, modulo 2^32. `None` if the
    /// exit does not show that it has moved. Stacks of goroutines move when they grow.
    fn moved(&self, number: FunctionId, sp: u32) -> Option<u32> {
        let (function, was) = match self.running.frames.last() {
            Some(top) => (top.number, top.sp.wrapping_add(self.running.shift)),
            None => self.suspended.innermost(self.running.before?)?,
        };
        let by = sp.wrapping_sub(was);
        let is_far = by.cast_signed().unsigned_abs() >= SMALLEST && by.is_multiple_of(8);
        (function == number && is_far).then_some(by)
    }

    /// Ends the innermost running call.
    #[inline]
    fn close(&mut self, exit: Exit, listener: &mut impl Listener<Note = N>) {
        let now = self.now;
        self.running.stop(now);
        let Some(Frame { number, entered, own, note, .. }) = self.running.frames.pop() else {
            return;
        };
        self.running.run(now);
        listener.leave(&Call { number, note, entered, left: now, own, exit, is_paused: false });
    }

    /// Ends all calls: first the calls of the running context, then of the contexts that wait for
    /// it, then of all other groups. Groups that never ran again count as abandoned.
    pub fn close_all(&mut self, exit: Exit, listener: &mut impl Listener<Note = N>) {
        while !self.running.frames.is_empty() {
            self.close(exit, listener);
        }
        let mut waits = [self.running.outer, self.running.origin].into_iter().flatten().next();
        self.running = RunningContext::default();
        while let Some(group) = waits.and_then(|id| self.suspended.take(id)) {
            waits = group.outer.or(group.origin);
            end_calls(group, exit, listener);
        }
        for group in self.suspended.drain() {
            let exit = if group.is_context { exit } else { Exit::Abandoned };
            end_calls(group, exit, listener);
        }
    }
}
