//! The events so far to what the next one probably is: the frames that are open.
//!
//! Writer and reader keep the same. What they hold decides only how short an event is written, so frames
//! that are wrong, as after a jump to another stack, cost bytes and nothing else.

use super::FunctionId;

/// Frames that are remembered. Of more, the outermost are forgotten.
const FRAMES: usize = 64;

/// A function that was entered and not left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub number: FunctionId,
    pub sp: u32,
}

/// A ring, innermost last.
#[derive(Clone, Debug)]
pub struct Frames {
    frames: [Frame; FRAMES],
    /// Behind the innermost, modulo [`FRAMES`].
    end: usize,
    depth: usize,
    /// Of the last event: what distances count from if no frame is open.
    last: u32,
}

impl Frames {
    pub const fn new() -> Self {
        Frames {
            frames: [Frame { number: FunctionId(0), sp: 0 }; FRAMES],
            end: 0,
            depth: 0,
            last: 0,
        }
    }

    /// The open frame that `outward` others are inside of.
    #[inline(always)]
    pub fn get(&self, outward: usize) -> Option<Frame> {
        let at = self.end.wrapping_sub(1 + outward) % FRAMES;
        (outward < self.depth).then(|| self.frames[at])
    }

    /// What the next event's stack pointer is told from.
    #[inline(always)]
    pub fn base(&self) -> u32 {
        self.get(0).map_or(self.last, |frame| frame.sp)
    }

    #[inline(always)]
    pub fn enter(&mut self, frame: Frame) {
        self.leave(frame.sp);
        self.frames[self.end % FRAMES] = frame;
        self.end = (self.end + 1) % FRAMES;
        self.depth = FRAMES.min(self.depth + 1);
    }

    /// Closes what cannot be open any more when the stack pointer is there: stacks grow downwards.
    #[inline(always)]
    pub fn leave(&mut self, sp: u32) {
        while self.get(0).is_some_and(|frame| frame.sp.wrapping_sub(sp) as i32 <= 0) {
            self.pop(1);
        }
        self.last = sp;
    }

    /// Closes the frame that `outward` others are inside of, and those. There are so many.
    #[inline(always)]
    pub fn exit(&mut self, outward: usize, sp: u32) {
        self.pop(outward + 1);
        self.last = sp;
    }

    #[inline(always)]
    fn pop(&mut self, frames: usize) {
        self.depth -= frames;
        self.end = self.end.wrapping_sub(frames) % FRAMES;
    }
}
