//! A thread's events to its calls: who called whom, from when to when, and how each ended.
//!
//! Stacks grow downwards, so a frame whose stack pointer is below that of an event does not run: a `longjmp` or an
//! exception has left it, or an exit that could not be tagged, or the thread has gone to another context (a signal
//! handler's, a coroutine's). [`contexts`] finds out which, [`parked`] keeps what does not run meanwhile, and a
//! [`Listener`] is told of the calls.

mod contexts;
mod parked;

use hmtt_format::tag_log::ClockPair;

pub use contexts::Stacks;
pub use parked::GROUPS;

/// Farther than this from the last event's is another stack.
pub const REGION: u32 = 64 << 20;
/// Most open frames of a stack: a return address and an aligned stack pointer are 16 bytes.
pub const DEPTH: usize = REGION as usize / 16;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By its exit.
    Returned,
    /// Without one, while its thread went on.
    Abandoned,
    /// With its thread.
    Ended,
    /// Not before the tagging did.
    Open,
}

/// A call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<N> {
    /// The function.
    pub number: u32,
    /// What the listener made of its entry.
    pub note: N,
    /// When it was entered, in ticks.
    pub entered: u64,
    /// When it ended, or was left.
    pub left: u64,
    /// Ticks during which it was the innermost call of the context that ran.
    pub own: u64,
    /// How it ended.
    pub exit: Exit,
    /// Whether its context did not run any more when it was found to be over: the listener knows that it was left.
    pub is_paused: bool,
}

impl<N> Call<N> {
    /// The same with another note.
    #[inline]
    fn with<M>(&self, note: M) -> Call<M> {
        let Call { number, entered, left, own, exit, is_paused, .. } = *self;
        Call { number, note, entered, left, own, exit, is_paused }
    }
}

/// Whoever is told of calls, of one thread at a time.
pub trait Listener {
    /// What is kept for each open call.
    type Note: Copy;

    /// The thread with this index is the one that calls from here on; if it is new, it has the next index.
    /// `number` is the kernel's.
    fn select(&mut self, _thread: usize, _number: u32) {}
    /// What a moment is on other clocks.
    fn clocks(&mut self, _clocks: &ClockPair) {}
    /// A function was entered; `caller` is the note of the innermost open call of the stack.
    fn enter(&mut self, caller: Option<Self::Note>, number: u32, tsc: u64) -> Self::Note;
    /// A call does not run any more, and may never again. Those of one context pause from the innermost on.
    fn pause(&mut self, _note: Self::Note, _number: u32, _tsc: u64) {}
    /// A call that was paused runs again. Those of one context go on from the outermost on.
    fn resume(&mut self, _note: Self::Note, _number: u32, _tsc: u64) {}
    /// A call is over. Those of one context end from the innermost on.
    fn leave(&mut self, call: &Call<Self::Note>);
    /// The selected thread has no calls any more.
    fn end(&mut self) {}
}

/// All that are there are told.
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
    fn enter(&mut self, caller: Option<Self::Note>, number: u32, tsc: u64) -> Self::Note {
        let (first, second) = caller.unzip();
        (self.0.enter(first, number, tsc), self.1.enter(second, number, tsc))
    }

    fn pause(&mut self, note: Self::Note, number: u32, tsc: u64) {
        self.0.pause(note.0, number, tsc);
        self.1.pause(note.1, number, tsc);
    }

    fn resume(&mut self, note: Self::Note, number: u32, tsc: u64) {
        self.0.resume(note.0, number, tsc);
        self.1.resume(note.1, number, tsc);
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

/// One that may be there.
impl<L: Listener> Listener for Option<L> {
    type Note = Option<L::Note>;

    fn select(&mut self, thread: usize, number: u32) {
        self.iter_mut().for_each(|listener| listener.select(thread, number));
    }

    fn clocks(&mut self, clocks: &ClockPair) {
        self.iter_mut().for_each(|listener| listener.clocks(clocks));
    }

    #[inline]
    fn enter(&mut self, caller: Option<Self::Note>, number: u32, tsc: u64) -> Self::Note {
        self.as_mut().map(|listener| listener.enter(caller.flatten(), number, tsc))
    }

    fn pause(&mut self, note: Self::Note, number: u32, tsc: u64) {
        if let (Some(listener), Some(note)) = (self, note) {
            listener.pause(note, number, tsc);
        }
    }

    fn resume(&mut self, note: Self::Note, number: u32, tsc: u64) {
        if let (Some(listener), Some(note)) = (self, note) {
            listener.resume(note, number, tsc);
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
    number: u32,
    /// Without what its context's stack has moved by since.
    sp: u32,
    entered: u64,
    /// When it was paused.
    left: u64,
    /// When it became the innermost one that runs.
    since: u64,
    /// Ticks during which it was, before that.
    own: u64,
    note: N,
}

/// How far the first is above the second.
#[inline(always)]
fn above(one: u32, other: u32) -> i32 {
    one.wrapping_sub(other) as i32
}
