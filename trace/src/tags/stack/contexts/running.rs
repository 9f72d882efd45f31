//! Holds the frames of the context that a thread executes.

use crate::tags::stack::suspended::Id;
use crate::tags::stack::{Frame, above};

/// The frames of the context that a thread executes, and its links to suspended groups.
#[derive(Debug)]
pub(super) struct RunningContext<N> {
    /// Frames, from the outermost to the innermost.
    pub frames: Vec<Frame<N>>,
    /// Distance that must be added to the stack pointers of all frames, modulo 2^32.
    pub shift: u32,
    /// Whether the frames were resumed, so that they are a context of their own.
    pub is_context: bool,
    /// The group with the outer frames of the same stack.
    pub outer: Option<Id>,
    /// The context that was running when this context began on a stack of its own.
    pub origin: Option<Id>,
    /// The group that was left when an entry came above all frames. If the stack had moved, this
    /// group contains the entry's caller.
    pub before: Option<Id>,
}

impl<N> Default for RunningContext<N> {
    fn default() -> Self {
        let (frames, outer, origin, before) = Default::default();
        RunningContext { frames, shift: 0, is_context: false, outer, origin, before }
    }
}

impl<N: Copy> RunningContext<N> {
    /// Number of frames above a stack pointer.
    pub fn above(&self, sp: u32) -> usize {
        let stored = sp.wrapping_sub(self.shift);
        self.frames.partition_point(|frame| above(frame.sp, stored) > 0)
    }

    /// How far the frame with index `place` is above a stack pointer, in bytes.
    pub fn distance(&self, place: usize, sp: u32) -> u32 {
        self.frames[place].sp.wrapping_add(self.shift).wrapping_sub(sp)
    }

    /// Starts the own time of the innermost frame.
    #[inline]
    pub fn run(&mut self, now: u64) {
        if let Some(top) = self.frames.last_mut() {
            top.since = now;
        }
    }

    /// Stops the own time of the innermost frame.
    #[inline]
    pub fn stop(&mut self, now: u64) {
        if let Some(top) = self.frames.last_mut() {
            top.own += now - top.since;
        }
    }
}
