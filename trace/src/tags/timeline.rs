//! Writes calls as a timeline in Chrome's trace event format, which ui.perfetto.dev shows.
//!
//! Events are written as they arrive, so a long log needs no additional memory.

use std::io::{self, Write};

use hmtt_format::tag_log::{ClockPair, FunctionId, Header};
use serde_json::json;

use super::names::Names;
use super::nanoseconds;
use super::stack::{Call, Listener};
use super::threads::Thread;

/// A writer of a timeline.
#[derive(Debug)]
pub struct Timeline<W> {
    output: W,
    names: Names,
    pid: u32,
    tsc_hz: u64,
    /// Relation of the clocks; it stays unchanged once an event is written.
    clocks: Option<ClockPair>,
    has_events: bool,
    thread: u32,
    /// Number of calls that may still be written.
    left: u64,
    /// Number of calls beyond the limit.
    pub left_out: u64,
    written: io::Result<()>,
}

impl<W: Write> Timeline<W> {
    /// Starts a timeline of at most `limit` calls.
    pub fn new(output: W, names: Names, header: &Header, limit: u64) -> Self {
        let mut timeline = Timeline {
            output,
            names,
            pid: header.pid,
            tsc_hz: header.tsc_hz,
            clocks: None,
            has_events: false,
            thread: 0,
            left: limit,
            left_out: 0,
            written: Ok(()),
        };
        timeline.written =
            timeline.output.write_all(b"{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n");
        timeline
    }

    /// Completes the timeline with the names of the process and its threads.
    ///
    /// # Errors
    /// The first error of `output`.
    pub fn finish(mut self, program: &str, threads: &[Thread]) -> io::Result<()> {
        self.written?;
        let pid = self.pid;
        for Thread { number, name, .. } in threads {
            if let Some(name) = name {
                let arguments = json!({ "name": name });
                let event = json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": arguments });
                writeln!(self.output, "{event},")?;
            }
        }
        let arguments = json!({ "name": program });
        let event = json!({ "ph": "M", "name": "process_name", "pid": pid, "args": arguments });
        writeln!(self.output, "{event}\n]}}")?;
        self.output.flush()
    }

    /// Converts ticks to microseconds of the monotonic clock, if the relation is known; returns whole microseconds and
    /// thousandths.
    fn time(&self, tsc: u64) -> (u64, u64) {
        let ns = match &self.clocks {
            Some(clocks) if tsc >= clocks.tsc => {
                clocks.monotonic_ns.saturating_add(nanoseconds(tsc - clocks.tsc, self.tsc_hz))
            }
            Some(clocks) => {
                clocks.monotonic_ns.saturating_sub(nanoseconds(clocks.tsc - tsc, self.tsc_hz))
            }
            None => nanoseconds(tsc, self.tsc_hz),
        };
        (ns / 1000, ns % 1000)
    }

    fn write(&mut self, phase: char, tsc: u64, name: Option<FunctionId>) {
        if self.written.is_err() {
            return;
        }
        self.has_events = true;
        let ((micros, nanos), pid, thread) = (self.time(tsc), self.pid, self.thread);
        let name = name.map_or(String::new(), |number| {
            format!(",\"name\":{}", serde_json::Value::from(self.names.get(number)))
        });
        self.written = writeln!(
            self.output,
            "{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{thread},\"ts\":{micros}.{nanos:03}{name}}},"
        );
    }
}

impl<W: Write> Listener for Timeline<W> {
    /// Whether the start of the call was written.
    type Note = bool;

    fn select(&mut self, _thread: usize, number: u32) {
        self.thread = number;
    }

    fn clocks(&mut self, clocks: &ClockPair) {
        if !self.has_events && self.tsc_hz != 0 {
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
