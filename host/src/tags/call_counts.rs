//! Calls to what each function and each pair of caller and callee amount to, in every thread.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::hash::{FACTOR, FastMap};
use super::stack::{Call, Exit, Listener};

/// What calls amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries.
    pub calls: u64,
    /// Calls that ended by an exit.
    pub returned: u64,
    /// Calls that ended without, while their threads went on.
    pub abandoned: u64,
    /// Calls that ended with their threads.
    pub ended: u64,
    /// Calls that had not ended when the tagging did.
    pub open: u64,
    /// Ticks during which a call was open, of a recursion those of the outermost.
    pub inclusive: u64,
    /// Ticks of the calls without those of the calls they made.
    pub own: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.returned += other.returned;
        self.abandoned += other.abandoned;
        self.ended += other.ended;
        self.open += other.open;
        self.inclusive += other.inclusive;
        self.own += other.own;
    }
}

/// Ticks during which at least one call is open.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    open: u64,
    since: u64,
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

#[derive(Clone, Copy, Debug)]
struct Edge {
    caller: Option<u32>,
    callee: u32,
    /// Place of the callee among the thread's functions.
    function: u32,
    span: Span,
    totals: Totals,
}

/// A power of two.
const RECENT: usize = 1024;
/// No key.
const NOTHING: u64 = u64::MAX;

/// A thread that has not ended.
#[derive(Debug)]
struct Live {
    /// Places that were found of late, by their keys' hashes: most calls are like one before, and this is
    /// faster than a map.
    recent: [(u64, u32); RECENT],
    /// Keys are the place of the caller among the functions plus 1, or 0 for none, and the callee.
    places: FastMap<u64, u32>,
    edges: Vec<Edge>,
    functions: Vec<(u32, Span)>,
    function_places: FastMap<u32, u32>,
}

/// Places of a call among its thread's edges and functions.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    edge: u32,
    function: u32,
}

/// Totals of each function, by its number.
pub type Functions = BTreeMap<u32, Totals>;
/// Totals of each pair of caller, if there was one that is tagged, and callee.
pub type Edges = BTreeMap<(Option<u32>, u32), Totals>;

/// What calls amount to so far.
#[derive(Debug, Default)]
pub struct CallCounts {
    live: Vec<Option<Box<Live>>>,
    selected: usize,
    /// Of each thread that has ended, by its index.
    pub threads: Vec<Functions>,
    /// Of all threads that have ended.
    pub edges: Edges,
}

impl Default for Live {
    fn default() -> Self {
        let (places, edges, functions, function_places) = Default::default();
        Live { recent: [(NOTHING, 0); RECENT], places, edges, functions, function_places }
    }
}

impl Live {
    /// Place of an edge.
    #[inline]
    fn find(&mut self, caller: Option<Note>, callee: u32) -> u32 {
        let row = caller.map_or(0, |caller| u64::from(caller.function) + 1);
        let key = row << 32 | u64::from(callee);
        let slot = (key.wrapping_mul(FACTOR) >> (u64::BITS - RECENT.ilog2())) as usize;
        match self.recent[slot] {
            (recent, place) if recent == key => place,
            _ => {
                let place = self.find_slowly(key, caller, callee);
                self.recent[slot] = (key, place);
                place
            }
        }
    }

    #[cold]
    fn find_slowly(&mut self, key: u64, caller: Option<Note>, callee: u32) -> u32 {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let caller = caller.map(|caller| self.functions[caller.function as usize].0);
        let place = self.add(caller, callee);
        self.places.insert(key, place);
        place
    }

    fn add(&mut self, caller: Option<u32>, callee: u32) -> u32 {
        let next = self.functions.len() as u32;
        let function = *self.function_places.entry(callee).or_insert(next);
        if function == next {
            self.functions.push((callee, Span::default()));
        }
        let (span, totals) = Default::default();
        self.edges.push(Edge { caller, callee, function, span, totals });
        self.edges.len() as u32 - 1
    }

    #[inline]
    fn enter(&mut self, caller: Option<Note>, number: u32, tsc: u64) -> Note {
        let place = self.find(caller, number);
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
        totals.own += (call.left - call.entered).saturating_sub(call.inner);
        edge.span.leave(call.left);
        self.functions[call.note.function as usize].1.leave(call.left);
    }
}

impl Listener for CallCounts {
    type Note = Note;

    fn select(&mut self, thread: usize, _number: u32) {
        if self.live.len() <= thread {
            self.live.resize_with(thread + 1, || Some(Box::default()));
            self.threads.resize_with(thread + 1, Functions::default);
        }
        self.selected = thread;
    }

    #[inline]
    fn enter(&mut self, caller: Option<Note>, number: u32, tsc: u64) -> Note {
        let live = self.live[self.selected].as_mut();
        live.expect("a thread that has ended calls nothing").enter(caller, number, tsc)
    }

    #[inline]
    fn leave(&mut self, call: &Call<Note>) {
        let live = self.live[self.selected].as_mut();
        live.expect("a thread that has ended leaves nothing").leave(call);
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
