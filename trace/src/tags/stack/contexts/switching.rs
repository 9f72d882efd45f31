//! Suspends and resumes contexts when an event shows which context is running.

use super::running::RunningContext;
use super::{AT_ONCE, NEAR, Stacks};
use crate::tags::stack::suspended::{Group, Id};
use crate::tags::stack::{Call, Exit, Frame, Listener, above};

impl<N: Copy> Stacks<N> {
    /// Resumes other frames if all calls of the running context have returned: the outer frames of
    /// its stack, or the context that ran before it began.
    #[cold]
    pub(super) fn resume_caller(&mut self, listener: &mut impl Listener<Note = N>) {
        while self.running.frames.is_empty() {
            let next = self.running.outer.take().or_else(|| self.running.origin.take());
            let Some(next) = next else { return };
            let group = self.suspended.take(next);
            self.resume_group(next, group, None, listener);
            if let Some(top) = self.running.frames.last() {
                self.sp = top.sp.wrapping_add(self.running.shift);
            }
        }
    }

    /// Removes all but the `kept` outermost frames of the running context, because an event with
    /// the stack pointer `sp` shows that they do not run. Frames near to the kept frames, or to the
    /// event if none is kept, have ended. Other frames may belong to another context and are
    /// suspended: returns their group.
    pub(super) fn leave(
        &mut self,
        kept: usize,
        sp: u32,
        listener: &mut impl Listener<Note = N>,
    ) -> Option<Id> {
        let outermost = self.running.frames.get(kept)?.sp.wrapping_add(self.running.shift);
        let outer = kept.checked_sub(1).map(|place| self.running.frames[place].sp);
        let outer = outer.map_or(sp, |outer| outer.wrapping_add(self.running.shift));
        if above(outer, outermost).unsigned_abs() > NEAR {
            return self.suspend(kept, false, listener);
        }
        while self.running.frames.len() > kept {
            self.close(Exit::Abandoned, listener);
        }
        None
    }

    /// Suspends all but the `kept` outermost frames of the running context. If `kept` is 0, the
    /// group also gets the links to the outer frames and to the origin. `is_context`: whether the
    /// frames are likely to run again. Returns the group; `None` if there is no frame to suspend.
    pub(super) fn suspend(
        &mut self,
        kept: usize,
        is_context: bool,
        listener: &mut impl Listener<Note = N>,
    ) -> Option<Id> {
        let now = self.now;
        if kept >= self.running.frames.len() {
            return None;
        }
        self.running.stop(now);
        let mut frames = self.running.frames.split_off(kept);
        self.running.run(now);
        for frame in frames.iter_mut().rev() {
            frame.left = now;
            listener.pause(frame.note, frame.number, now);
        }
        let RunningContext { shift, outer, origin, .. } = &mut self.running;
        let whole = kept == 0;
        let group = Group {
            frames: frames.into(),
            shift: *shift,
            is_context,
            outer: outer.take_if(|_| whole),
            origin: origin.take_if(|_| whole),
        };
        let (id, removed) = self.suspended.add(group);
        removed.into_iter().for_each(|group| end_calls(group, Exit::Abandoned, listener));
        Some(id)
    }

    /// Suspends the running context, and resumes a group up to the frame with index `place`.
    pub(super) fn switch(&mut self, id: Id, place: usize, listener: &mut impl Listener<Note = N>) {
        // The group is taken first, because the suspension of other frames can remove the oldest
        // group.
        let group = self.suspended.take(id);
        self.suspend(0, self.running.is_context, listener);
        self.resume_group(id, group, Some(place), listener);
    }

    /// Makes a group the running context. Frames inside of the frame with index `place` stay
    /// suspended. Of the other frames, the [`AT_ONCE`] innermost ones run. The outer ones stay
    /// suspended until these have returned. Returns false if there is no group.
    pub(super) fn resume_group(
        &mut self,
        id: Id,
        group: Option<Group<N>>,
        place: Option<usize>,
        listener: &mut impl Listener<Note = N>,
    ) -> bool {
        let Some(mut group) = group else { return false };
        let kept = place.map_or(group.frames.len(), |place| place + 1);
        if kept < group.frames.len() {
            // The smaller part is moved. So many such events take no more time than a sort.
            let inner = if kept <= group.frames.len() / 2 {
                let outer = group.frames.drain(..kept).collect();
                std::mem::replace(&mut group.frames, outer)
            } else {
                group.frames.split_off(kept)
            };
            let (shift, is_context) = (group.shift, false);
            let inner = Group { frames: inner, shift, is_context, origin: None, outer: None };
            let (_, removed) = self.suspended.add(inner);
            removed.into_iter().for_each(|group| end_calls(group, Exit::Abandoned, listener));
        }
        let rest = group.frames.len().saturating_sub(AT_ONCE);
        let frames: Vec<Frame<N>> = group.frames.drain(rest..).collect();
        let (shift, origin) = (group.shift, group.origin);
        let outer = group.outer;
        self.running =
            RunningContext { frames, shift, is_context: true, outer, origin, before: None };
        if rest > 0 {
            (self.running.outer, self.running.origin) = (Some(id), None);
            let removed = self.suspended.put(id, Group { is_context: true, ..group });
            removed.into_iter().for_each(|group| end_calls(group, Exit::Abandoned, listener));
        }
        for frame in &self.running.frames {
            listener.resume(frame.note, frame.number, self.now);
        }
        self.running.run(self.now);
        true
    }

    /// Ends the calls of groups whose innermost frames are in the `bytes` bytes from `sp` on,
    /// because a new frame has overwritten them.
    pub(super) fn end_overwritten(
        &mut self,
        sp: u32,
        bytes: u32,
        listener: &mut impl Listener<Note = N>,
    ) {
        while let Some(group) = self.suspended.take_within(sp, bytes) {
            end_calls(group, Exit::Abandoned, listener);
        }
    }
}

/// Ends the calls of a group, from the innermost to the outermost, at the times at which they were
/// left.
pub(super) fn end_calls<N: Copy>(
    group: Group<N>,
    exit: Exit,
    listener: &mut impl Listener<Note = N>,
) {
    for Frame { number, entered, left, own, note, .. } in group.frames.into_iter().rev() {
        listener.leave(&Call { number, note, entered, left, own, exit, is_paused: true });
    }
}
