//! Generates the events of threads' tags, and models the calls that they represent.

use std::collections::BTreeMap;

use hmtt::tags::call_counts::Totals;
use hmtt::tags::stack::Exit;
use hmtt_files::tag_log::{FunctionId, TagEvent};
use proptest::prelude::*;

pub const FUNCTIONS: u32 = 6;
const TOP: u32 = 0x1000_0000;
const SIGNAL_STACK: u32 = 0xf000_0000;

/// An action of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Call(u32),
    /// A signal on the same stack, below the area that the running function uses.
    Interrupt(u32),
    Return,
    /// A return through the exit of another function.
    ReturnThrough(u32),
    TailCall(u32),
    /// A `longjmp` out of this many frames, or this many exits without a tag.
    Leave(usize),
    /// A signal on another stack, with this many nested calls.
    Elsewhere(u32),
}

pub fn deed() -> impl Strategy<Value = Deed> {
    let function = 0..FUNCTIONS;
    prop_oneof![
        8 => function.clone().prop_map(Deed::Call),
        1 => function.clone().prop_map(Deed::Interrupt),
        7 => Just(Deed::Return),
        1 => function.clone().prop_map(Deed::ReturnThrough),
        2 => function.prop_map(Deed::TailCall),
        1 => (1usize..4).prop_map(Deed::Leave),
        1 => (1u32..4).prop_map(Deed::Elsewhere),
    ]
}

/// A completed call.
#[derive(Clone, Copy, Debug)]
struct Done {
    caller: Option<u32>,
    function: u32,
    time: (u64, u64),
    inner: u64,
    exit: Exit,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    function: u32,
    sp: u32,
    entered: u64,
    inner: u64,
}

/// A thread with its history.
#[derive(Debug)]
pub struct Model {
    pub events: Vec<TagEvent>,
    frames: Vec<Frame>,
    /// Number of frames at the end that were left, which is unknown until the next event on this
    /// stack.
    dead: usize,
    now: u64,
    /// Time on the signal stack, during which nothing of the other stack runs; and whether it is
    /// there now.
    away: u64,
    is_away: bool,
    done: Vec<Done>,
    pub shared: u64,
}

/// Offset of times on the signal stack from those on the other one.
const AWAY: u64 = 1 << 60;

/// Frame size of a function. Each function has another one, and so all its calls are at one depth.
fn frame_bytes(function: u32) -> u32 {
    16 + function * 24
}

impl Model {
    pub fn new(start: u64) -> Self {
        let (events, frames, done) = Default::default();
        Model { events, frames, dead: 0, now: start, away: 0, is_away: false, done, shared: 0 }
    }

    /// Time during which the current stack has run.
    fn ran(&self) -> u64 {
        if self.is_away { AWAY + self.now } else { self.now - self.away }
    }

    pub fn does(&mut self, deed: Deed, ticks: u64) {
        self.now += ticks;
        let running = self.frames.len() - self.dead;
        let top = running.checked_sub(1).map(|at| self.frames[at]);
        let below = top.map_or(TOP, |top| top.sp - frame_bytes(top.function));
        match (deed, top) {
            (Deed::Call(function), _) => self.enter(function, below),
            // Below frames that were left, the interrupt would make them look open.
            (Deed::Interrupt(function), _) if self.dead == 0 => self.enter(function, below - 640),
            (Deed::Interrupt(function), _) => self.enter(function, below),
            (Deed::Return, Some(top)) => self.exit(top.function, top.sp),
            (Deed::ReturnThrough(other), Some(top)) => {
                self.shared += u64::from(other != top.function);
                self.exit(other, top.sp);
            }
            (Deed::TailCall(function), Some(top)) => {
                self.exit(top.function, top.sp);
                self.enter(function, top.sp);
            }
            (Deed::Leave(frames), _) => self.dead += frames.min(running),
            (Deed::Elsewhere(depth), _) => self.elsewhere(depth),
            (Deed::Return | Deed::ReturnThrough(_) | Deed::TailCall(_), None) => {}
        }
    }

    fn tag(&mut self, number: u32, sp: u32, is_exit: bool) {
        self.events.push(TagEvent { tsc: self.now, sp, number: FunctionId(number), is_exit });
    }

    fn close(&mut self, exit: Exit) {
        let (frame, now) = (self.frames.pop().unwrap(), self.ran());
        let caller = self.frames.last_mut().map(|caller| {
            caller.inner += now - frame.entered;
            caller.function
        });
        let Frame { function, entered, inner, .. } = frame;
        self.done.push(Done { caller, function, time: (entered, now), inner, exit });
    }

    fn bury(&mut self) {
        (0..std::mem::take(&mut self.dead)).for_each(|_| self.close(Exit::Abandoned));
    }

    fn enter(&mut self, function: u32, sp: u32) {
        self.bury();
        self.tag(function, sp, false);
        self.frames.push(Frame { function, sp, entered: self.ran(), inner: 0 });
    }

    fn exit(&mut self, function: u32, sp: u32) {
        self.bury();
        self.tag(function, sp, true);
        self.close(Exit::Returned);
    }

    /// Makes nested calls on another stack, one tick each.
    fn elsewhere(&mut self, depth: u32) {
        let (frames, dead) = (std::mem::take(&mut self.frames), std::mem::take(&mut self.dead));
        let begun = self.now + 1;
        self.is_away = true;
        for function in 0..depth {
            self.now += 1;
            self.enter(function, SIGNAL_STACK - 64 * function);
        }
        for function in (0..depth).rev() {
            self.now += 1;
            self.exit(function, SIGNAL_STACK - 64 * function);
        }
        self.is_away = false;
        self.away += self.now - begun;
        (self.frames, self.dead) = (frames, dead);
    }

    /// Ends the open calls with the last event, because nothing after it is known.
    pub fn end(&mut self, exit: Exit) {
        self.now = self.events.last().map_or(0, |event| event.tsc);
        while !self.frames.is_empty() {
            self.close(exit);
        }
    }

    pub fn functions(&self) -> BTreeMap<FunctionId, Totals> {
        self.totals(|done| FunctionId(done.function))
    }

    pub fn edges(&self) -> BTreeMap<(Option<FunctionId>, FunctionId), Totals> {
        self.totals(|done| (done.caller.map(FunctionId), FunctionId(done.function)))
    }

    fn totals<K: Ord>(&self, key: impl Fn(&Done) -> K) -> BTreeMap<K, Totals> {
        let mut times = BTreeMap::<K, Vec<(u64, u64)>>::new();
        let mut totals = BTreeMap::<K, Totals>::new();
        for done in &self.done {
            times.entry(key(done)).or_default().push(done.time);
            let total = totals.entry(key(done)).or_default();
            total.calls += 1;
            *match done.exit {
                Exit::Returned => &mut total.returned,
                Exit::Abandoned => &mut total.abandoned,
                Exit::Ended => &mut total.ended,
                Exit::Open => &mut total.open,
            } += 1;
            total.own += done.time.1 - done.time.0 - done.inner;
        }
        for (key, times) in times {
            totals.get_mut(&key).unwrap().inclusive = covered(times);
        }
        totals
    }
}

/// Returns the total time that the intervals cover.
fn covered(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let (mut sum, mut end) = (0, 0);
    for (from, to) in times {
        sum += to.max(end) - from.max(end);
        end = end.max(to);
    }
    sum
}
