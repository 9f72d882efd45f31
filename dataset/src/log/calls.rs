//! Collects the calls of a log when they end, and builds their rows.

use std::collections::HashMap;
use std::time::Duration;

use hmtt::tags::names::Names;
use hmtt::tags::stack::{Call, Exit, Listener};
use hmtt_files::tag_log::FunctionId;
use parquet::data_type::ByteArray;

use super::clock::LogClock;
use super::threads::exit_name;
use crate::accesses::milliseconds;
use crate::identity::CaptureHash;
use crate::rows::{Value, signed};

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedCall {
    /// Index of the thread in the log.
    pub session: usize,
    /// Number of the thread in the kernel.
    pub thread: u32,
    /// Number of the function.
    pub function: FunctionId,
    /// Number of the calling function; `None` if no tagged function was open.
    pub caller: Option<FunctionId>,
    /// Number of calls that were open around this call on its stack.
    pub depth: u32,
    /// Times of the entry and of the end, in ticks.
    pub ticks: (u64, u64),
    /// Ticks during which this call was the innermost running call.
    pub own: u64,
    /// Kind of the call's end.
    pub exit: Exit,
}

/// Facts about an open call, kept until the call ends.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    function: FunctionId,
    caller: Option<FunctionId>,
    depth: u32,
}

/// Collects the calls of a log that have ended.
#[derive(Debug, Default)]
pub struct CallRows {
    session: usize,
    thread: u32,
    ended: Vec<EndedCall>,
}

impl CallRows {
    /// Removes and returns the calls that have ended, in the order of their ends in each thread.
    pub fn take(&mut self) -> Vec<EndedCall> {
        std::mem::take(&mut self.ended)
    }
}

impl Listener for CallRows {
    type Note = Note;

    fn select(&mut self, thread: usize, number: u32) {
        (self.session, self.thread) = (thread, number);
    }

    fn enter(&mut self, caller: Option<Note>, function: FunctionId, _tsc: u64) -> Note {
        let depth = caller.map_or(0, |caller| caller.depth + 1);
        Note { function, caller: caller.map(|caller| caller.function), depth }
    }

    fn leave(&mut self, call: &Call<Note>) {
        let Note { function, caller, depth } = call.note;
        self.ended.push(EndedCall {
            session: self.session,
            thread: self.thread,
            function,
            caller,
            depth,
            ticks: (call.entered, call.left),
            own: call.own,
            exit: call.exit,
        });
    }
}

/// Texts of the rows. Each text is stored only once.
pub struct Texts<'a> {
    names: &'a Names,
    capture: ByteArray,
    functions: HashMap<FunctionId, ByteArray>,
}

impl<'a> Texts<'a> {
    /// Texts for a log. `hash`: hash of the log, which each row states.
    pub fn new(names: &'a Names, hash: CaptureHash) -> Self {
        Texts { names, capture: (&*hash.to_string()).into(), functions: HashMap::new() }
    }

    /// Builds the row of a call. Also returns the time of the call's end since the Unix epoch,
    /// which determines the row's hour.
    pub fn row(&mut self, call: &EndedCall, clock: &LogClock) -> (Duration, Vec<Value>) {
        let (entered, left) = call.ticks;
        let (start, end) = (clock.time_ns(entered), clock.time_ns(left));
        let end_time = Duration::from_nanos(end.unwrap_or(clock.start_ns));
        let ns = |ticks| clock.duration_ns(ticks).map(signed);
        let row = vec![
            self.capture.clone().into(),
            signed(call.session as u64).into(),
            milliseconds(end_time).into(),
            signed(call.thread).into(),
            signed(call.function.0).into(),
            self.name(call.function).into(),
            call.caller.map(|caller| self.name(caller)).into(),
            signed(call.depth).into(),
            start.map(signed).into(),
            end.map(signed).into(),
            ns(left.saturating_sub(entered)).into(),
            ns(call.own).into(),
            exit_name(call.exit).into(),
        ];
        (end_time, row)
    }

    fn name(&mut self, function: FunctionId) -> ByteArray {
        let names = self.names;
        self.functions.entry(function).or_insert_with(|| (&*names.get(function)).into()).clone()
    }
}
