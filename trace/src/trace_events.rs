//! Writes events in Chrome's trace event format, which ui.perfetto.dev can display.
//!
//! Events are written as they arrive, so the use of memory does not grow with the trace.

use std::io::{self, Write};

use serde_json::{Value, json};

/// Writes the events of a trace. After an error nothing more is written, and
/// [`TraceEvents::finish`] returns the error.
#[derive(Debug)]
pub struct TraceEvents<W> {
    output: W,
    has_events: bool,
    written: io::Result<()>,
}

impl<W: Write> TraceEvents<W> {
    /// Begins a trace. `other`: facts about the trace as a whole, written as `otherData`.
    pub fn new(mut output: W, other: Option<&Value>) -> Self {
        let begin = |output: &mut W| {
            write!(output, "{{\"displayTimeUnit\": \"ns\", ")?;
            if let Some(other) = other {
                write!(output, "\"otherData\": {other}, ")?;
            }
            write!(output, "\"traceEvents\": [")
        };
        let written = begin(&mut output);
        TraceEvents { output, has_events: false, written }
    }

    /// Whether an event was written. Names do not count as events.
    pub fn has_events(&self) -> bool {
        self.has_events
    }

    fn write(&mut self, event: std::fmt::Arguments<'_>, is_first: bool) {
        if self.written.is_ok() {
            let separator = if is_first { "\n" } else { ",\n" };
            self.written = write!(self.output, "{separator}{event}");
        }
    }

    /// Writes an event. `phase`: letter of the event's kind. `ns`: its time in nanoseconds. `rest`:
    /// further members in JSON, each after a comma.
    pub fn event(&mut self, phase: char, pid: u32, thread: u32, ns: u64, rest: &str) {
        let (micros, nanos) = (ns / 1000, ns % 1000);
        let is_first = !std::mem::replace(&mut self.has_events, true);
        self.write(
            format_args!(
                "{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{thread},\"ts\":{micros}.{nanos:03}{rest}}}"
            ),
            is_first,
        );
    }

    /// Completes the trace with names. Each name belongs to a process (pid), or to a thread of a
    /// process.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish<'n>(
        mut self,
        names: impl Iterator<Item = (u32, Option<u32>, &'n str)>,
    ) -> io::Result<()> {
        let mut is_first = !self.has_events;
        for (pid, thread, name) in names {
            let arguments = json!({ "name": name });
            let event = match thread {
                Some(tid) => {
                    json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": arguments })
                }
                None => json!({ "ph": "M", "name": "process_name", "pid": pid, "args": arguments }),
            };
            self.write(format_args!("{event}"), is_first);
            is_first = false;
        }
        self.written?;
        writeln!(self.output, "\n]}}")?;
        self.output.flush()
    }
}
