//! Reconstructs the calls of a thread from its events: caller, callee, times, and how each call
//! ended.
//!
//! Stacks grow downwards. So an event shows that frames below its stack pointer are not running.
//! There are two possible reasons: the frames were left by a `longjmp`, by an exception or by an
//! exit that could not be tagged, or the thread has switched to another context (a signal handler
//! or a coroutine). `contexts` decides between the two, `suspended` stores the frames that are not
//! running, and the calls are reported to a [`Listener`].
//!
//! ```text
//! event        stack pointer   open calls
//! entry of f   0x1000          f
//! entry of g   0x0fc0          f, g
//! exit of f    0x1000          none: g was abandoned, f has returned
//! ```

mod contexts;
mod suspended;

use hmtt_files::tag_log::{ClockPair, FunctionId};

pub use contexts::Stacks;
pub use suspended::GROUPS;

/// A stack pointer that is farther than this from the last event's stack pointer, in bytes, is on
/// another stack.
pub const REGION: u32 = 64 << 20;
/// Maximum number of open frames of a stack. Each frame takes at least 16 bytes, for a return
/// address and the alignment of the stack pointer.
pub const DEPTH: usize = REGION as usize / 16;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By its exit event.
    Returned,
    /// Without an exit event, while its thread continued.
    Abandoned,
    /// By the end of its thread.
    Ended,
    /// Not at all: the call was still open when tagging ended.
    Open,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<N> {
    /// Number of the function.
    pub number: FunctionId,
    /// The note that the listener returned for its entry.
    pub note: N,
    /// Time of its entry, in ticks.
    pub entered: u64,
    /// Time at which it ended or was left, in ticks.
    pub left: u64,
    /// Ticks during which it was the innermost call of the thread's running context.
    pub own: u64,
    /// How the call ended.
    pub exit: Exit,
    /// Whether its context was not running when the end was found. Then the pause of the call was
    /// already reported to the listener.
    pub is_paused: bool,
}

impl<N> Call<N> {
    /// This call with another note.
    #[inline]
    fn with<M>(&self, note: M) -> Call<M> {
        let Call { number, entered, left, own, exit, is_paused, .. } = *self;
        Call { number, note, entered, left, own, exit, is_paused }
    }
}

/// Receives the calls of threads, one thread at a time.
pub trait Listener {
    /// Data that the listener returns for each entry, and gets back with each later report of this
    /// call.
    type Note: Copy;

    /// Selects the thread whose calls are reported from now on. `thread`: index of the thread; a
    /// new thread has the next index. `number`: the kernel's number of the thread.
    fn select(&mut self, _thread: usize, _number: u32) {}
    /// Reports a pair of times that two clocks showed at the same moment.
    fn clocks(&mut self, _clocks: &ClockPair) {}
    /// Reports an entry. `caller`: the note of the innermost open call of the same stack, if there
    /// is one. `number`: the function. `tsc`: the time, in ticks.
    fn enter(&mut self, caller: Option<Self::Note>, number: FunctionId, tsc: u64) -> Self::Note;
    /// Reports that a call stops running, possibly for ever. The calls of a context pause from the
    /// innermost to the outermost.
    fn pause(&mut self, _note: Self::Note, _number: FunctionId, _tsc: u64) {}
    /// Reports that a paused call runs again. The calls of a context resume from the outermost to
    /// the innermost.
    fn resume(&mut self, _note: Self::Note, _number: FunctionId, _tsc: u64) {}
    /// Reports that the innermost running call begins a block of its function.
    fn block(&mut self, _note: Self::Note, _block: FunctionId, _tsc: u64) {}
    /// Reports the end of a call. The calls of a context end from the innermost to the outermost.
    fn leave(&mut self, call: &Call<Self::Note>);
    /// Reports that the selected thread has ended.
    fn end(&mut self) {}
}

/// Passes each report to both listeners.
impl<A: Listener, B: Listener> Listener for (A, B) {
    type Note = (A::Note, B::Note);

    fn select(&mut self, thread: usize, number: u32) {
        self.0.select(thread, number);
        self.1.select(thread, number);
    }

    fn clocks(&mut self, clocks: &ClockPair) {
        self.0.clocks(clocks);
        self.1.clocks(clocks);
    }

    #[inline]
    fn enter(&mut self, caller: Option<Self::Note>, number: FunctionId, tsc: u64) -> Self::Note {
        let (first, second) = caller.unzip();
        (self.0.enter(first, number, tsc), self.1.enter(second, number, tsc))
    }

    fn pause(&mut self, note: Self::Note, number: FunctionId, tsc: u64) {
        self.0.pause(note.0, number, tsc);
        self.1.pause(note.1, number, tsc);
    }

    fn resume(&mut self, note: Self::Note, number: FunctionId, tsc: u64) {
        self.0.resume(note.0, number, tsc);
        self.1.resume(note.1, number, tsc);
    }

    fn block(&mut self, note: Self::Note, block: FunctionId, tsc: u64) {
        self.0.block(note.0, block, tsc);
        self.1.block(note.1, block, tsc);
    }

    #[inline]
    fn leave(&mut self, call: &Call<Self::Note>) {
        self.0.leave(&call.with(call.note.0));
        self.1.leave(&call.with(call.note.1));
    }

    fn end(&mut self) {
        self.0.end();
        self.1.end();
    }
}

/// Passes each report to the listener if there is one.
impl<L: Listener> Listener for Option<L> {
    type Note = Option<L::Note>;

    fn select(&mut self, thread: usize, number: u32) {
        self.iter_mut().for_each(|listener| listener.select(thread, number));
    }

    fn clocks(&mut self, clocks: &ClockPair) {
        self.iter_mut().for_each(|listener| listener.clocks(clocks));
    }

    #[inline]
    fn enter(&mut self, caller: Option<Self::Note>, number: FunctionId, tsc: u64) -> Self::Note {
        self.as_mut().map(|listener| listener.enter(caller.flatten(), number, tsc))
    }

    fn pause(&mut self, note: Self::Note, number: FunctionId, tsc: u64) {
        if let (Some(listener), Some(note)) = (self, note) {
            listener.pause(note, number, tsc);
        }
    }

    fn resume(&mut self, note: Self::Note, number: FunctionId, tsc: u64) {
        if let (Some(listener), Some(note)) = (self, note) {
            listener.resume(note, number, tsc);
        }
    }

    fn block(&mut self, note: Self::Note, block: FunctionId, tsc: u64) {
        if let (Some(listener), Some(note)) = (self, note) {
            listener.block(note, block, tsc);
        }
    }

    #[inline]
    fn leave(&mut self, call: &Call<Self::Note>) {
        if let (Some(listener), Some(note)) = (self, call.note) {
            listener.leave(&call.with(note));
        }
    }

    fn end(&mut self) {
        self.iter_mut().for_each(Listener::end);
    }
}

/// An open call.
#[derive(Clone, Copy, Debug)]
struct Frame<N> {
    number: FunctionId,
    /// Stack pointer at the entry, less the `shift` of the frame's context at that time: its
    /// current value is `sp + shift`.
    sp: u32,
    /// Time of the entry, in ticks.
    entered: u64,
    /// Time of the entry or, later, of its last pause, in ticks.
    left: u64,
    /// Time at which it became the innermost running frame, in ticks.
    since: u64,
    /// Ticks during which it was the innermost running frame, before `since`.
    own: u64,
    note: N,
}

/// How far `first` is above `second`, in bytes; negative if it is below.
#[inline(always)]
fn above(first: u32, second: u32) -> i32 {
    first.wrapping_sub(second) as i32
}
