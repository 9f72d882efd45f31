//! A thread's events to its calls: who called whom, from when to when, and how each ended.
//!
//! Stacks grow downwards, so a frame whose stack pointer is below that of an event cannot be open any more: a
//! `longjmp` or an exception has left it, or an exit that could not be tagged. It is closed as abandoned.
//! Events that are far from all others are on another stack (`sigaltstack`, coroutines), which has frames of
//! its own. Stacks nearer to each other than [`REGION`] are taken for one.

use hmtt_format::tag_log::{ClockPair, TagEvent};

/// Farther than this from the last event's is another stack.
pub const REGION: u32 = 64 << 20;
/// Stacks of a thread that are known at once. The one that was not used for longest is given up.
pub const STACKS: usize = 16;
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
    /// When it ended.
    pub left: u64,
    /// Ticks in the calls it made.
    pub inner: u64,
    /// How it ended.
    pub exit: Exit,
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
    /// A call is over. Those of one stack end from the innermost on.
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

    #[inline]
    fn leave(&mut self, call: &Call<Self::Note>) {
        let Call { number, note, entered, left, inner, exit } = *call;
        self.0.leave(&Call { number, note: note.0, entered, left, inner, exit });
        self.1.leave(&Call { number, note: note.1, entered, left, inner, exit });
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

    #[inline]
    fn leave(&mut self, call: &Call<Self::Note>) {
        if let (Some(listener), Some(note)) = (self, call.note) {
            let Call { number, entered, left, inner, exit, .. } = *call;
            listener.leave(&Call { number, note, entered, left, inner, exit });
        }
    }

    fn end(&mut self) {
        self.iter_mut().for_each(Listener::end);
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame<N> {
    number: u32,
    sp: u32,
    entered: u64,
    inner: u64,
    note: N,
}

#[derive(Debug)]
struct Stack<N> {
    frames: Vec<Frame<N>>,
    /// Of its last event.
    sp: u32,
    /// Switches between stacks before it was left last.
    used: u64,
}

/// The stacks of a thread.
#[derive(Debug)]
pub struct Stacks<N> {
    /// The one its last event was on.
    here: Stack<N>,
    others: Vec<Stack<N>>,
    switches: u64,
    now: u64,
    /// Exits without a frame.
    pub unmatched: u64,
    /// Exits in code that another function shares: of the frame, but not by its own exit.
    pub shared: u64,
}

impl<N> Default for Stacks<N> {
    fn default() -> Self {
        let (here, others) = (Stack { frames: Vec::new(), sp: 0, used: 0 }, Vec::new());
        Stacks { here, others, switches: 0, now: 0, unmatched: 0, shared: 0 }
    }
}

/// How far the first is above the second.
#[inline(always)]
fn above(one: u32, other: u32) -> i32 {
    one.wrapping_sub(other) as i32
}

impl<N: Copy> Stack<N> {
    #[inline]
    fn is_near(&self, sp: u32) -> bool {
        above(sp, self.sp).unsigned_abs() <= REGION
    }

    /// Closes the innermost frame.
    #[inline]
    fn close(&mut self, now: u64, exit: Exit, listener: &mut impl Listener<Note = N>) {
        let Some(Frame { number, entered, inner, note, .. }) = self.frames.pop() else { return };
        if let Some(caller) = self.frames.last_mut() {
            caller.inner += now - entered;
        }
        listener.leave(&Call { number, note, entered, left: now, inner, exit });
    }

    /// Closes the frames at `sp` or below it.
    #[inline]
    fn abandon(&mut self, sp: u32, now: u64, listener: &mut impl Listener<Note = N>) {
        while self.frames.last().is_some_and(|top| above(top.sp, sp) <= 0) {
            self.close(now, Exit::Abandoned, listener);
        }
    }

    fn close_all(&mut self, now: u64, exit: Exit, listener: &mut impl Listener<Note = N>) {
        while !self.frames.is_empty() {
            self.close(now, exit, listener);
        }
    }
}

impl<N: Copy> Stacks<N> {
    /// Takes an event of a function.
    #[inline]
    pub fn event(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        // Processors whose counters differ do not make times negative.
        self.now = self.now.max(event.tsc);
        if !self.here.is_near(event.sp) && !self.switch(event.sp, !event.is_exit, listener) {
            self.unmatched += 1;
            return;
        }
        self.here.sp = event.sp;
        match event.is_exit {
            true => self.exit(event, listener),
            false => self.enter(event, listener),
        }
    }

    /// Takes an event of a block: what its function called is over.
    pub fn block(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        self.now = self.now.max(event.tsc);
        if self.here.is_near(event.sp) || self.switch(event.sp, false, listener) {
            self.here.sp = event.sp;
            self.here.abandon(event.sp.wrapping_sub(1), self.now, listener);
        }
    }

    #[inline]
    fn enter(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        let (TagEvent { number, sp, .. }, entered) = (event, self.now);
        self.here.abandon(sp, entered, listener);
        if self.here.frames.len() >= DEPTH {
            self.here.close_all(entered, Exit::Abandoned, listener);
        }
        let caller = self.here.frames.last().map(|frame| frame.note);
        let note = listener.enter(caller, number, entered);
        self.here.frames.push(Frame { number, sp, entered, inner: 0, note });
    }

    #[inline]
    fn exit(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        self.here.abandon(event.sp.wrapping_sub(1), self.now, listener);
        match self.here.frames.last() {
            Some(frame) if frame.sp == event.sp => {
                self.shared += u64::from(frame.number != event.number);
                self.here.close(self.now, Exit::Returned, listener);
            }
            _ => self.unmatched += 1,
        }
    }

    /// Closes all frames.
    pub fn close_all(&mut self, exit: Exit, listener: &mut impl Listener<Note = N>) {
        let stacks = self.others.iter_mut().chain([&mut self.here]);
        stacks.for_each(|stack| stack.close_all(self.now, exit, listener));
    }

    /// Goes to the stack that `sp` is on; false: it is not known, and must not be added.
    #[cold]
    fn switch(&mut self, sp: u32, may_add: bool, listener: &mut impl Listener<Note = N>) -> bool {
        let near = self.others.iter().enumerate().filter(|(_, stack)| stack.is_near(sp));
        let found = near.min_by_key(|(_, stack)| above(sp, stack.sp).unsigned_abs());
        let place = match found.map(|(place, _)| place) {
            None if !may_add => return false,
            None => self.another(listener),
            Some(place) => place,
        };
        self.switches += 1;
        self.here.used = self.switches;
        std::mem::swap(&mut self.here, &mut self.others[place]);
        true
    }

    /// Place of a stack without frames.
    fn another(&mut self, listener: &mut impl Listener<Note = N>) -> usize {
        if self.others.len() + 1 < STACKS {
            self.others.push(Stack { frames: Vec::new(), sp: 0, used: 0 });
            return self.others.len() - 1;
        }
        // One without frames, if there is one: nothing is lost with it.
        let age =
            |place: &usize| (!self.others[*place].frames.is_empty(), self.others[*place].used);
        let oldest = (0..self.others.len()).min_by_key(age).unwrap_or_default();
        self.others[oldest].close_all(self.now, Exit::Abandoned, listener);
        oldest
    }
}
