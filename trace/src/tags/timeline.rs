//! Writes calls as a timeline for ui.perfetto.dev, in Chrome's format of trace events. Each call is
//! written when it is reported.

use std::io::{self, Write};

use hmtt_files::tag_log::{ClockPair, FunctionId, Header};

use super::names::Names;
use super::nanoseconds;
use super::stack::{Call, Listener};
use super::threads::Thread;
use crate::trace_events::TraceEvents;

/// A writer of a timeline.
#[derive(Debug)]
pub struct Timeline<W> {
    events: TraceEvents<W>,
    names: Names,
    pid: u32,
    tsc_hz: u64,
    /// A pair of times that relates ticks to the monotonic clock. The pair stays the same after the
    /// first event.
    clocks: Option<ClockPair>,
    /// The kernel's number of the thread whose calls are reported.
    thread: u32,
    /// Number of calls that may still be written.
    left: u64,
    /// Number of calls that were not written, because the limit was reached.
    pub left_out: u64,
}

impl<W: Write> Timeline<W> {
    /// Starts a timeline of at most `limit` calls.
    pub fn new(output: W, names: Names, header: &Header, limit: u64) -> Self {
        Timeline {
            events: TraceEvents::new(output, None),
            names,
            pid: header.pid,
            tsc_hz: header.tsc_hz,
            clocks: None,
            thread: 0,
            left: limit,
            left_out: 0,
        }
    }

    /// Completes the timeline with the names of the process and its threads.
    ///
    /// # Errors
    /// The first error that `output` has returned.
    pub fn finish(self, program: &str, threads: &[Thread]) -> io::Result<()> {
        let pid = self.pid;
        let thread = |thread: &'_ Thread| Some((pid, Some(thread.number), thread.name.clone()?));
        let threads: Vec<_> = threads.iter().filter_map(thread).collect();
        let threads = threads.iter().map(|(pid, number, name)| (*pid, *number, &**name));
        self.events.finish(threads.chain([(pid, None, program)]))
    }

    /// Converts ticks to nanoseconds of the monotonic clock. If the relation is not known, the
    /// result has an unknown origin.
    fn time(&self, tsc: u64) -> u64 {
        match &self.clocks {
            Some(clocks) if tsc >= clocks.tsc => {
                clocks.monotonic_ns.saturating_add(nanoseconds(tsc - clocks.tsc, self.tsc_hz))
            }
            Some(clocks) => {
                clocks.monotonic_ns.saturating_sub(nanoseconds(clocks.tsc - tsc, self.tsc_hz))
            }
            None => nanoseconds(tsc, self.tsc_hz),
        }
    }

    /// Writes an event of the selected thread. `phase`: B for a begin, E for an end.
    fn write(&mut self, phase: char, tsc: u64, name: Option<FunctionId>) {
        let name = name.map_or(String::new(), |number| {
            format!(",\"name\":{}", serde_json::Value::from(self.names.get(number)))
        });
        let ns = self.time(tsc);
        self.events.event(phase, self.pid, self.thread, ns, &name);
    }
}

impl<W: Write> Listener for Timeline<W> {
    /// Whether the start of the call was written.
    type Note = bool;

    fn select(&mut self, _thread: usize, number: u32) {
        self.thread = number;
    }

    fn clocks(&mut self, clocks: &ClockPair) {
        if !self.events.has_events() && self.tsc_hz != 0 {
            self.clocks = self.clocks.or(Some(*clocks));
        }
    }

    fn enter(&mut self, _caller: Option<bool>, number: FunctionId, tsc: u64) -> bool {
        if self.left == 0 {
            self.left_out += 1;
            return false;
        }
        self.left -= 1;
        self.write('B', tsc, Some(number));
        true
    }

    fn pause(&mut self, note: bool, _number: FunctionId, tsc: u64) {
        if note {
            self.write('E', tsc, None);
        }
    }

    fn resume(&mut self, note: bool, number: FunctionId, tsc: u64) {
        if note {
            self.write('B', tsc, Some(number));
        }
    }

    fn leave(&mut self, call: &Call<bool>) {
        if call.note && !call.is_paused {
            self.write('E', call.left, None);
        }
    }
}
