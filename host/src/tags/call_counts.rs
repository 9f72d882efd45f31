//! Calls to what each function and each pair of caller and callee amount to, in every thread.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::hash::FastMap;
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

/// A thread that has not ended.
#[derive(Debug, Default)]
struct Live {
    /// By the place of the caller among the functions plus 1, 0 for none, and the callee.
    places: FastMap<u64, u32>,
    edges: Vec<Edge>,
    functions: Vec<(u32, Span)>,
    function_places: FastMap<u32, u32>,
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

impl Live {
    #[cold]
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
    fn enter(&mut self, caller: Option<u32>, number: u32, tsc: u64) -> u32 {
        let caller = caller.map(|edge| self.edges[edge as usize]);
        let row = caller.map_or(0, |caller| u64::from(caller.function) + 1);
        let key = row << 32 | u64::from(number);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.add(caller.map(|caller| caller.callee), number);
                self.places.insert(key, place);
                place
            }
        };
        let edge = &mut self.edges[place as usize];
        edge.totals.calls += 1;
        edge.span.enter(tsc);
        self.functions[edge.function as usize].1.enter(tsc);
        place
    }

    #[inline]
    fn leave(&mut self, call: &Call<u32>) {
        let edge = &mut self.edges[call.note as usize];
        let totals = &mut edge.totals;
        match call.exit {
            Exit::Returned => totals.returned += 1,
            Exit::Abandoned => totals.abandoned += 1,
            Exit::Ended => totals.ended += 1,
            Exit::Open => totals.open += 1,
        }
        totals.own += (call.left - call.entered).saturating_sub(call.inner);
        edge.span.leave(call.left);
        self.functions[edge.function as usize].1.leave(call.left);
    }
}

impl Listener for CallCounts {
    /// Place among the thread's edges.
    type Note = u32;

    fn select(&mut self, thread: usize, _number: u32) {
        if self.live.len() <= thread {
            self.live.resize_with(thread + 1, || Some(Box::default()));
            self.threads.resize_with(thread + 1, Functions::default);
        }
        self.selected = thread;
    }

    #[inline]
    fn enter(&mut self, caller: Option<u32>, number: u32, tsc: u64) -> u32 {
        let live = self.live[self.selected].as_mut();
        live.expect("a thread that has ended calls nothing").enter(caller, number, tsc)
    }

    #[inline]
    fn leave(&mut self, call: &Call<u32>) {
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
