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
const DEPTH: usize = REGION as usize / 16;

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
    /// Switches between stacks before it was used last.
    used: u64,
}

/// The stacks of a thread.
#[derive(Debug)]
pub struct Stacks<N> {
    stacks: Vec<Stack<N>>,
    current: usize,
    switches: u64,
    now: u64,
    /// Exits without a frame.
    pub unmatched: u64,
    /// Exits in code that another function shares: of the frame, but not by its own exit.
    pub shared: u64,
}

impl<N> Default for Stacks<N> {
    fn default() -> Self {
        let (stacks, current) = (Vec::new(), 0);
        Stacks { stacks, current, switches: 0, now: 0, unmatched: 0, shared: 0 }
    }
}

/// How far the first is above the second.
fn above(one: u32, other: u32) -> i32 {
    one.wrapping_sub(other) as i32
}

impl<N: Copy> Stacks<N> {
    /// Takes an event of a function.
    #[inline]
    pub fn event(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        // Processors whose counters differ do not make times negative.
        self.now = self.now.max(event.tsc);
        if !self.find(event.sp, !event.is_exit, listener) {
            self.unmatched += 1;
            return;
        }
        match event.is_exit {
            true => self.exit(event, listener),
            false => self.enter(event, listener),
        }
    }

    /// Takes an event of a block: what its function called is over.
    pub fn block(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        self.now = self.now.max(event.tsc);
        if self.find(event.sp, false, listener) {
            self.abandon(event.sp.wrapping_sub(1), listener);
        }
    }

    #[inline]
    fn enter(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        let TagEvent { number, sp, .. } = event;
        self.abandon(sp, listener);
        if self.stacks[self.current].frames.len() >= DEPTH {
            self.close_stack(self.current, Exit::Abandoned, listener);
        }
        let frames = &mut self.stacks[self.current].frames;
        let note = listener.enter(frames.last().map(|frame| frame.note), number, self.now);
        frames.push(Frame { number, sp, entered: self.now, inner: 0, note });
    }

    #[inline]
    fn exit(&mut self, event: TagEvent, listener: &mut impl Listener<Note = N>) {
        self.abandon(event.sp.wrapping_sub(1), listener);
        match self.stacks[self.current].frames.last() {
            Some(frame) if frame.sp == event.sp => {
                self.shared += u64::from(frame.number != event.number);
                self.close(self.current, Exit::Returned, listener);
            }
            _ => self.unmatched += 1,
        }
    }

    /// Closes the frames of the current stack that are at `sp` or below it.
    #[inline]
    fn abandon(&mut self, sp: u32, listener: &mut impl Listener<Note = N>) {
        while self.stacks[self.current].frames.last().is_some_and(|top| above(top.sp, sp) <= 0) {
            self.close(self.current, Exit::Abandoned, listener);
        }
    }

    #[inline]
    fn close(&mut self, stack: usize, exit: Exit, listener: &mut impl Listener<Note = N>) {
        let frames = &mut self.stacks[stack].frames;
        let Some(Frame { number, entered, inner, note, .. }) = frames.pop() else { return };
        if let Some(caller) = frames.last_mut() {
            caller.inner += self.now - entered;
        }
        listener.leave(&Call { number, note, entered, left: self.now, inner, exit });
    }

    fn close_stack(&mut self, stack: usize, exit: Exit, listener: &mut impl Listener<Note = N>) {
        while !self.stacks[stack].frames.is_empty() {
            self.close(stack, exit, listener);
        }
    }

    /// Closes all frames.
    pub fn close_all(&mut self, exit: Exit, listener: &mut impl Listener<Note = N>) {
        (0..self.stacks.len()).for_each(|stack| self.close_stack(stack, exit, listener));
    }

    /// Whether the stack that `sp` is on is known, or made known; it is the current one then.
    #[inline]
    fn find(&mut self, sp: u32, may_add: bool, listener: &mut impl Listener<Note = N>) -> bool {
        let is_here = match self.stacks.get_mut(self.current) {
            Some(stack) if above(sp, stack.sp).unsigned_abs() <= REGION => {
                stack.sp = sp;
                true
            }
            _ => false,
        };
        is_here || self.switch(sp, may_add, listener)
    }

    #[cold]
    fn switch(&mut self, sp: u32, may_add: bool, listener: &mut impl Listener<Note = N>) -> bool {
        let distance = |stack: &Stack<N>| above(sp, stack.sp).unsigned_abs();
        let near = self.stacks.iter().enumerate().filter(|(_, stack)| distance(stack) <= REGION);
        let found = near.min_by_key(|(_, stack)| distance(stack)).map(|(at, _)| at);
        if found.is_none() && !may_add {
            return false;
        }
        self.current = found.unwrap_or_else(|| self.another(listener));
        self.switches += 1;
        let stack = &mut self.stacks[self.current];
        (stack.sp, stack.used) = (sp, self.switches);
        true
    }

    /// A stack without frames.
    fn another(&mut self, listener: &mut impl Listener<Note = N>) -> usize {
        if self.stacks.len() < STACKS {
            self.stacks.push(Stack { frames: Vec::new(), sp: 0, used: 0 });
            return self.stacks.len() - 1;
        }
        // One without frames, if there is one: nothing is lost with it.
        let age = |at: &usize| (!self.stacks[*at].frames.is_empty(), self.stacks[*at].used);
        let oldest = (0..STACKS).min_by_key(age).unwrap_or_default();
        self.close_stack(oldest, Exit::Abandoned, listener);
        oldest
    }
}
