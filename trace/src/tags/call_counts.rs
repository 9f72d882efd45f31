//! Sums the calls of each function and of each pair of caller and callee, in every thread.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::hash::FastMap;
use super::stack::{Call, Exit, Listener};
use hmtt_files::tag_log::FunctionId;

/// Sums over calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of entries.
    pub calls: u64,
    /// Calls that ended by an exit.
    pub returned: u64,
    /// Calls that ended without an exit, while their threads continued.
    pub abandoned: u64,
    /// Calls that ended with their threads.
    pub ended: u64,
    /// Calls that were still open when tagging ended.
    pub open: u64,
    /// Ticks during which at least one call was open and not paused. So a recursion counts once.
    pub inclusive: u64,
    /// Ticks during which a call was the innermost one of its thread.
    pub own: u64,
}

impl AddAssign for Totals {
    /// Saturates: a log can contain any times, and threads run in parallel.
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, other: u64| *sum = sum.saturating_add(other);
        add(&mut self.calls, other.calls);
        add(&mut self.returned, other.returned);
        add(&mut self.abandoned, other.abandoned);
        add(&mut self.ended, other.ended);
        add(&mut self.open, other.open);
        add(&mut self.inclusive, other.inclusive);
        add(&mut self.own, other.own);
    }
}

/// Sums the ticks during which at least one call of a function, or on an edge, is running.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Number of open calls that are not paused.
    open: u64,
    /// Time at which `open` became 1, in ticks.
    since: u64,
    /// Ticks of the periods that have ended.
    total: u64,
}

impl Span {
    #[inline]
    fn enter(&mut self, tsc: u64) {
        if self.open == 0 {
            self.since = tsc;
        }
        self.open += 1;
    }

    #[inline]
    fn leave(&mut self, tsc: u64) {
        self.open -= 1;
        if self.open == 0 {
            self.total += tsc - self.since;
        }
    }
}

/// A pair of caller and callee in a thread, and the sums of its calls.
#[derive(Clone, Copy, Debug)]
struct Edge {
    caller: Option<FunctionId>,
    callee: FunctionId,
    /// Index of the callee in the thread's functions.
    function: u32,
    span: Span,
    totals: Totals,
}

/// Number of entries of [`Recent`]: a power of two.
const RECENT: usize = 1024;
/// 2^64 divided by the golden ratio, rounded to an odd number (Knuth, TAOCP 3, 6.4).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A cache of the indices of edges, by the hashes of their keys. Most calls have the caller and
/// callee of a recent call, and the cache is faster than a map. All threads share it, so the memory
/// of a thread only grows with its distinct edges.
#[derive(Debug)]
struct Recent {
    /// Key of the edge, index of the thread, and index of the edge.
    found: Box<[Option<(u64, u32, u32)>; RECENT]>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { found: Box::new([None; RECENT]) }
    }
}

/// Sums of a thread that has made at least one call and has not ended.
#[derive(Debug, Default)]
struct Live {
    /// Index of each edge in `edges`. The high 32 bits of a key are the index of the caller in
    /// `functions` plus 1, or 0 without a tagged caller. The low 32 bits are the number of the
    /// callee.
    places: FastMap<u64, u32>,
    edges: Vec<Edge>,
    /// Functions that the thread has called, each with its time.
    functions: Vec<(FunctionId, Span)>,
    /// Index of each function in `functions`.
    function_places: FastMap<FunctionId, u32>,
}

/// The data of an open call: the indices of its edge and of its function in its thread.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    edge: u32,
    function: u32,
}

/// Totals of each function, by its number.
pub type Functions = BTreeMap<FunctionId, Totals>;
/// Totals of each pair of caller and callee; `None` stands for a caller that is not tagged.
pub type Edges = BTreeMap<(Option<FunctionId>, FunctionId), Totals>;

/// Sums of all calls so far.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// Sums of each thread, by its index. `None` for a thread that has made no call or has ended.
    live: Vec<Option<Box<Live>>>,
    recent: Recent,
    /// Index of the thread whose calls are reported.
    selected: usize,
    /// Totals of each thread that has ended, by its index.
    pub threads: Vec<Functions>,
    /// Totals of call edges, over all threads that have ended.
    pub edges: Edges,
}

impl Recent {
    /// Returns the index of the edge from `caller` to `callee` in a thread's edges. Adds the edge
    /// if it is new.
    #[inline]
    fn find(
        &mut self,
        thread: u32,
        live: &mut Live,
        caller: Option<Note>,
        callee: FunctionId,
    ) -> u32 {
        let row = caller.map_or(0, |caller| u64::from(caller.function) + 1);
        let key = row << 32 | u64::from(callee.0);
        let slot = (key.wrapping_mul(FACTOR) >> (u64::BITS - RECENT.ilog2())) as usize;
        match self.found[slot] {
            Some((recent, recent_thread, place)) if (recent, recent_thread) == (key, thread) => {
                place
            }
            _ => {
                let place = live.find_slowly(key, caller, callee);
                self.found[slot] = Some((key, thread, place));
                place
            }
        }
    }
}

impl Live {
    /// Finds the edge with a key in the map, or adds it.
    #[cold]
    fn find_slowly(&mut self, key: u64, caller: Option<Note>, callee: FunctionId) -> u32 {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let caller = caller.map(|caller| self.functions[caller.function as usize].0);
        let place = self.add(caller, callee);
        self.places.insert(key, place);
        place
    }

    /// Adds an edge, and its callee if it is a new function. Returns the index of the edge.
    fn add(&mut self, caller: Option<FunctionId>, callee: FunctionId) -> u32 {
        let next = self.functions.len() as u32;
        let function = *self.function_places.entry(callee).or_insert(next);
        if function == next {
            self.functions.push((callee, Span::default()));
        }
        let (span, totals) = Default::default();
        self.edges.push(Edge { caller, callee, function, span, totals });
        self.edges.len() as u32 - 1
    }

    /// Counts the entry of a call on the edge with index `place`.
    #[inline]
    fn enter(&mut self, place: u32, tsc: u64) -> Note {
        let edge = &mut self.edges[place as usize];
        edge.totals.calls += 1;
        edge.span.enter(tsc);
        let function = edge.function;
        self.functions[function as usize].1.enter(tsc);
        Note { edge: place, function }
    }

    #[inline]
    fn leave(&mut self, call: &Call<Note>) {
        let edge = &mut self.edges[call.note.edge as usize];
        let totals = &mut edge.totals;
        match call.exit {
            Exit::Returned => totals.returned += 1,
            Exit::Abandoned => totals.abandoned += 1,
            Exit::Ended => totals.ended += 1,
            Exit::Open => totals.open += 1,
        }
        totals.own = totals.own.saturating_add(call.own);
        if !call.is_paused {
            self.pause(call.note, call.left);
        }
    }

    fn pause(&mut self, note: Note, tsc: u64) {
        self.edges[note.edge as usize].span.leave(tsc);
        self.functions[note.function as usize].1.leave(tsc);
    }

    fn resume(&mut self, note: Note, tsc: u64) {
        self.edges[note.edge as usize].span.enter(tsc);
        self.functions[note.function as usize].1.enter(tsc);
    }
}

impl Listener for CallCounts {
    type Note = Note;

    fn select(&mut self, thread: usize, _number: u32) {
        if self.live.len() <= thread {
            self.live.resize_with(thread + 1, || None);
            self.threads.resize_with(thread + 1, Functions::default);
        }
        self.selected = thread;
    }

    #[inline]
    fn enter(&mut self, caller: Option<Note>, number: FunctionId, tsc: u64) -> Note {
        let live = self.live[self.selected].get_or_insert_default();
        // A log of 2^32 threads would be longer than 64 GB, and the totals of these threads would
        // be larger still.
        let place = self.recent.find(self.selected as u32, live, caller, number);
        live.enter(place, tsc)
    }

    #[inline]
    fn leave(&mut self, call: &Call<Note>) {
        let live = self.live[self.selected].as_mut();
        live.expect("a thread leaves only calls that it has entered").leave(call);
    }

    fn pause(&mut self, note: Note, _number: FunctionId, tsc: u64) {
        let live = self.live[self.selected].as_mut();
        live.expect("a thread that has ended makes no calls").pause(note, tsc);
    }

    fn resume(&mut self, note: Note, _number: FunctionId, tsc: u64) {
        let live = self.live[self.selected].as_mut();
        live.expect("a thread that has ended makes no calls").resume(note, tsc);
    }

    fn end(&mut self) {
        let Some(live) = self.live[self.selected].take() else { return };
        let functions = &mut self.threads[self.selected];
        for edge in live.edges {
            let total = Totals { inclusive: 0, ..edge.totals };
            *functions.entry(edge.callee).or_default() += total;
            let total = Totals { inclusive: edge.span.total, ..edge.totals };
            *self.edges.entry((edge.caller, edge.callee)).or_default() += total;
        }
        for (number, span) in live.functions {
            functions.entry(number).or_default().inclusive = span.total;
        }
    }
}

impl CallCounts {
    /// Totals of each function over all threads that have ended.
    pub fn functions(&self) -> Functions {
        let mut functions = Functions::new();
        for (number, totals) in self.threads.iter().flatten() {
            *functions.entry(*number).or_default() += *totals;
        }
        functions
    }
}
