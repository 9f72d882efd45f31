//! Tracks the open frames of a thread. The encoder and the decoder predict the next event from
//! them.
//!
//! Invariant: the encoder and the decoder have the same frames after the same events. The frames
//! determine only the length of an encoded event. Wrong frames, as after a jump to another stack,
//! only make the chunk longer.

use super::FunctionId;

/// Maximum number of frames that are tracked. If there are more, the outermost ones are dropped.
const FRAMES: usize = 64;

/// A function that was entered and has not been left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub number: FunctionId,
    pub sp: u32,
}

/// The open frames, in a ring buffer whose last entry is the innermost frame.
#[derive(Clone, Debug)]
pub struct Frames {
    frames: [Frame; FRAMES],
    /// Index after the innermost frame, modulo [`FRAMES`].
    end: usize,
    depth: usize,
    /// Stack pointer of the last event. Distances are counted from it if no frame is open.
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

    /// The open frame with `outward` open frames inside it.
    #[inline(always)]
    pub fn get(&self, outward: usize) -> Option<Frame> {
        let at = self.end.wrapping_sub(1 + outward) % FRAMES;
        (outward < self.depth).then(|| self.frames[at])
    }

    /// The stack pointer from which the distance of the next event is counted.
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

    /// Closes the frames that cannot be open with this stack pointer, since stacks grow downwards.
    #[inline(always)]
    pub fn leave(&mut self, sp: u32) {
        while self.get(0).is_some_and(|frame| frame.sp.wrapping_sub(sp) as i32 <= 0) {
            self.pop(1);
        }
        self.last = sp;
    }

    /// Closes the frame with `outward` open frames inside it, and these frames. The frame must
    /// exist.
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
