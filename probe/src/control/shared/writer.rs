//! Records of threads to a log file ([`hmtt_format::tag_log`]).
//!
//! A file that cannot be written any more is not waited for: what comes is thrown away, and the error is kept
//! for the end, since the program is not to notice.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hmtt_format::tag_log::{
    Chunk, ClockPair, Content, EventEncoder, Full, Header, LossReason, TagEvent,
};

use super::clock;
use super::untrusted::Untrusted;
use crate::stubs::layout::LogShape;

/// How often the log says what time it is.
const CLOCKS: Duration = Duration::from_secs(1);
/// Longest chunk of the log that we write.
const BUFFER_BYTES: usize = 1 << 18;

/// What a log has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Events in it.
    pub events: u64,
    /// Events that were dropped because a buffer was full.
    pub dropped: u64,
    /// Events whose writing was interrupted and never went on.
    pub interrupted: u64,
    /// Records, and counts of records, that cannot be: the program has written over them.
    pub damaged: u64,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
}

/// Writes a log.
#[derive(Debug)]
pub struct Writer {
    file: File,
    failed: Option<io::Error>,
    buffer: Vec<u8>,
    header: Header,
    first: ClockPair,
    clocks: Instant,
    /// Entries of each function.
    pub calls: Vec<u64>,
    /// How many numbers of functions and blocks were handed out.
    pub numbers: Arc<AtomicU64>,
    summary: LogSummary,
}

impl Writer {
    /// Begins a log.
    pub fn new(mut file: File, header: Header) -> io::Result<Self> {
        file.write_all(&header.encode())?;
        let buffer = vec![0; BUFFER_BYTES];
        let (first, clocks) = (clock::pair(), Instant::now());
        let summary = LogSummary { tsc_hz: header.tsc_hz, ..LogSummary::default() };
        let mut writer = Writer {
            file,
            failed: None,
            buffer,
            header,
            first,
            clocks,
            calls: Vec::new(),
            numbers: Arc::default(),
            summary,
        };
        writer.say(0, Content::Clocks(first));
        Ok(writer)
    }

    /// Adds a chunk.
    pub fn say(&mut self, thread: u32, content: Content<'_>) {
        if let Content::Lost { count, reason } = content {
            let sum = match reason {
                LossReason::BufferFull => &mut self.summary.dropped,
                LossReason::Damaged => &mut self.summary.damaged,
                _ => &mut self.summary.interrupted,
            };
            *sum = sum.saturating_add(count);
        }
        match (Chunk { thread, content }).encode(&mut self.buffer) {
            Ok(bytes) => self.append(bytes),
            Err(Full) => self.fail(Full.into_error()),
        }
    }

    /// Adds the time, if it has not been said for a while.
    pub fn say_time(&mut self) {
        if self.clocks.elapsed() >= CLOCKS {
            self.clocks = Instant::now();
            self.say(0, Content::Clocks(clock::pair()));
        }
    }

    /// Says that something of a thread cannot be.
    pub fn damaged(&mut self, thread: u32, count: u64) {
        self.say(thread, Content::Lost { count, reason: LossReason::Damaged });
    }

    /// Adds the records of a thread; those that were not written, or cannot be, are said to be lost where they are.
    pub fn records(&mut self, thread: u32, shape: &LogShape, records: &[u8]) {
        let numbers = self.numbers.load(Ordering::SeqCst);
        let records = records.chunks_exact(shape.record_bytes() as usize);
        let mut events = records.map(|record| event(record, numbers)).peekable();
        while let Some(first) = events.peek() {
            if let Err(reason) = *first {
                let mut count = 0;
                while events.next_if_eq(&Err(reason)).is_some() {
                    count += 1;
                }
                self.say(thread, Content::Lost { count, reason });
                continue;
            }
            let bytes = match EventEncoder::new(&mut self.buffer, thread, shape.is_timed) {
                Ok(mut encoder) => {
                    encoder.set_time(clock::tsc());
                    while let Some(Ok(event)) = events.peek() {
                        match encoder.push(*event) {
                            Ok(()) => count(&mut self.calls, event),
                            Err(Full) => break,
                        }
                        events.next();
                    }
                    self.summary.events += u64::from(encoder.count());
                    if encoder.count() == 0 { 0 } else { encoder.finish() }
                }
                Err(Full) => return self.fail(Full.into_error()),
            };
            self.append(bytes);
        }
    }

    fn append(&mut self, bytes: usize) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.buffer[..bytes]).err();
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    /// Ends the log.
    ///
    /// # Errors
    /// What has gone wrong first, at any time.
    pub fn finish(mut self, ending: hmtt_format::tag_log::Ending) -> io::Result<LogSummary> {
        let last = clock::pair();
        self.say(0, Content::Clocks(last));
        self.say(0, Content::End(ending));
        if let Some(error) = self.failed {
            return Err(error);
        }
        // Over the whole run it is known better; a pipe keeps what was said first.
        let tsc_hz = clock::rate(&self.first, &last);
        self.summary.tsc_hz = tsc_hz;
        let _ = self.file.write_all_at(&Header { tsc_hz, ..self.header }.encode(), 0);
        Ok(self.summary)
    }
}

/// Its number is one that was handed out, so there is room for it.
fn count(calls: &mut Vec<u64>, event: &TagEvent) {
    let number = event.number as usize;
    if number >= calls.len() {
        calls.resize(number + 1, 0);
    }
    calls[number] += u64::from(!event.is_exit);
}

/// `Full` as an error of a file.
trait IntoError {
    fn into_error(self) -> io::Error;
}

impl IntoError for Full {
    fn into_error(self) -> io::Error {
        io::Error::other(self)
    }
}

/// A record as an event, with one of so many numbers; or why it is none.
fn event(record: &[u8], numbers: u64) -> Result<TagEvent, LossReason> {
    let event = match (record.first_chunk(), record.first_chunk()) {
        (Some(timed), _) => TagEvent::from_timed(timed),
        (None, Some(ordered)) => TagEvent::from_ordered(ordered),
        _ => None,
    };
    let event = event.ok_or(LossReason::Interrupted)?;
    let number = Untrusted::new(u64::from(event.number)).below(numbers);
    number.map(|_| event).ok_or(LossReason::Damaged)
}
