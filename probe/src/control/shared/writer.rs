//! Encodes the records of threads into a log file ([`hmtt_files::tag_log`]).
//!
//! After a write error, all further records are discarded, and the error is reported at the end:
//! the program must not be delayed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hmtt_files::tag_log::{
    Chunk, ClockPair, Content, EventEncoder, Full, Header, LossReason, TagEvent,
};
use rustix::fs::{FlockOperation, flock};

use super::clock;
use super::untrusted::Untrusted;
use crate::stubs::layout::LogShape;

/// Interval at which the clocks are written to the log.
const CLOCKS: Duration = Duration::from_secs(1);
/// Maximum size of a chunk that is written to the log, in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Summary of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Number of events.
    pub events: u64,
    /// Number of events that were dropped because a buffer was full.
    pub dropped: u64,
    /// Number of events whose tag was interrupted and never finished.
    pub interrupted: u64,
    /// Number of records, and of counts of dropped records, with impossible values. The program has
    /// overwritten them.
    pub damaged: u64,
    /// Ticks of the time stamp counter per second.
    pub tsc_hz: u64,
}

/// Writes a log file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    failed: Option<io::Error>,
    buffer: Vec<u8>,
    header: Header,
    first: ClockPair,
    clocks: Instant,
    /// Number of entries of each function and block, by its number.
    pub calls: Vec<u64>,
    /// Count of functions and blocks. They are numbered from 0 on, so each of their numbers is less
    /// than this count.
    pub numbers: Arc<AtomicU64>,
    summary: LogSummary,
}

impl Writer {
    /// Begins a log.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(mut file: File, header: Header) -> io::Result<Self> {
        // A reader that needs the complete log waits until this lock is released. A pipe, or a file
        // on a file system without locks, is written without a lock.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
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
        writer.write(0, Content::Clocks(first));
        Ok(writer)
    }

    /// Writes a chunk of the log's format.
    pub fn write(&mut self, thread: u32, content: Content<'_>) {
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

    /// Writes a reading of the clocks if the last one is at least `CLOCKS` old.
    pub fn write_clocks(&mut self) {
        if self.clocks.elapsed() >= CLOCKS {
            self.clocks = Instant::now();
            self.write(0, Content::Clocks(clock::pair()));
        }
    }

    /// Writes how many records or counts of a thread have impossible values.
    pub fn write_damaged(&mut self, thread: u32, count: u64) {
        self.write(thread, Content::Lost { count, reason: LossReason::Damaged });
    }

    /// Writes the records of a thread. A run of unwritten or impossible records is replaced by one
    /// count of lost records. For example, the records A, unwritten, unwritten, B become A, "2
    /// lost", B.
    pub fn records(&mut self, thread: u32, shape: &LogShape, records: &[u8]) {
        let numbers = self.numbers.load(Ordering::SeqCst);
        let records = records.chunks_exact(shape.record_bytes() as usize);
        let mut events = records.map(|record| parse_event(record, numbers)).peekable();
        while let Some(first) = events.peek() {
            if let Err(reason) = *first {
                let mut count = 0;
                while events.next_if_eq(&Err(reason)).is_some() {
                    count += 1;
                }
                self.write(thread, Content::Lost { count, reason });
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
    /// The first error of any write.
    pub fn finish(mut self, ending: hmtt_files::tag_log::Ending) -> io::Result<LogSummary> {
        let last = clock::pair();
        self.write(0, Content::Clocks(last));
        self.write(0, Content::End(ending));
        if let Some(error) = self.failed {
            return Err(error);
        }
        // The rate over the whole run is more exact. A log in a pipe keeps the first estimate.
        let tsc_hz = clock::rate(&self.first, &last);
        self.summary.tsc_hz = tsc_hz;
        let _ = self.file.write_all_at(&Header { tsc_hz, ..self.header }.encode(), 0);
        Ok(self.summary)
    }
}

/// Counts an event of a function or block. Its number was checked, so the vector stays small.
fn count(calls: &mut Vec<u64>, event: &TagEvent) {
    let number = event.number.index();
    if number >= calls.len() {
        calls.resize(number + 1, 0);
    }
    calls[number] += u64::from(!event.is_exit);
}

/// Conversion of [`Full`] to an I/O error.
trait IntoError {
    fn into_error(self) -> io::Error;
}

impl IntoError for Full {
    fn into_error(self) -> io::Error {
        io::Error::other(self)
    }
}

/// Decodes a record. The number of its function or block must be less than `numbers`.
fn parse_event(record: &[u8], numbers: u64) -> Result<TagEvent, LossReason> {
    let event = match (record.first_chunk(), record.first_chunk()) {
        (Some(timed), _) => TagEvent::from_timed(timed),
        (None, Some(ordered)) => TagEvent::from_ordered(ordered),
        _ => None,
    };
    let event = event.ok_or(LossReason::Interrupted)?;
    let number = Untrusted::new(u64::from(event.number.0)).below(numbers);
    number.map(|_| event).ok_or(LossReason::Damaged)
}
