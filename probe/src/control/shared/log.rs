//! Writes the records in the slots of threads to a log file, in a thread of the controller that
//! uses no ptrace.
//!
//! The tracing thread sends messages about threads that begin and end. The log thread empties
//! chunks that were handed over, and sleeps until a tag increments the doorbell word. A third
//! thread only increments the liveness counter: without it, tags would take a controller with a
//! slow disk for a dead one.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use hmtt_files::tag_log::{Content, Ending, Header, Mark};
use nix::unistd::Pid;

use super::drain::Drain;
use super::marks::{MarkOutput, MarkThread};
use super::slots::{FreeSlots, Slots};
use super::writer::{LogSummary, Writer};
use super::{InheritedMemory, Shared, SlotLayout, clock};
use crate::control::TagError;
use crate::ptrace::{Stopped, StoppedThread};
use crate::stubs::layout::{LogShape, header};

/// Interval at which the liveness counter is incremented. A tag that waits takes the controller for
/// dead after 20 waits of 100 ms without an increment.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time for which the log thread sleeps.
const SLEEP: Duration = Duration::from_millis(10);

/// Destination and format of a log.
#[derive(Debug)]
pub struct LogOutput {
    /// File that is written from its start.
    pub file: File,
    /// Path of the file, for errors.
    pub path: PathBuf,
    /// Sizes of the buffers.
    pub shape: LogShape,
    /// Identifier of the log. The tag map has the same identifier.
    pub map_id: [u8; 8],
    /// Marks on the memory bus, if wanted.
    pub marks: Option<MarkOutput>,
}

/// Message from the tracing thread to the log thread.
#[derive(Debug)]
enum Message {
    ThreadStarted(Drain, Vec<u8>),
    ThreadEnded(u64),
    Mark(Mark),
    Finish(Ending),
}

/// Number of entries of each function and block that the log thread has written.
type Calls = Arc<Mutex<Vec<u64>>>;

/// A log that is being written.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    shared: Arc<Shared>,
    shape: LogShape,
    /// The slot of each thread.
    pub slots: Slots,
    messages: Sender<Message>,
    writing: Option<JoinHandle<io::Result<LogSummary>>>,
    calls: Calls,
    /// Number of functions and blocks.
    numbers: Arc<AtomicU64>,
    marking: Option<MarkThread>,
    /// The liveness thread ends when this is dropped.
    _liveness: Sender<()>,
    /// Estimated ticks of the time stamp counter per second.
    pub tsc_hz: u64,
}

impl Log {
    /// Makes shared memory with buffers for at most `max_functions` functions, and begins the log.
    pub fn new(
        process: &mut Stopped<'_>,
        inherited: Option<InheritedMemory>,
        output: LogOutput,
        max_functions: usize,
    ) -> Result<Self, TagError> {
        let LogOutput { file, path, shape, map_id, marks } = output;
        let sizes = SlotLayout { slot_bytes: shape.slot_bytes(), alignment: shape.chunk_bytes };
        let shared = Arc::new(Shared::new(process, inherited, sizes, max_functions)?);
        Drain::abandon(&shared, &shape, 0);
        let slots = Slots::new(Arc::clone(&shared), inherited);
        let tsc_hz = clock::measure();
        let header = Header {
            is_timed: shape.is_timed,
            pid: process.pid.as_raw() as u32,
            tsc_hz,
            start_ns: clock::pair().realtime_ns,
            map_id,
        };
        let operation = "begin the log";
        let failed = |source| TagError::Log { operation, path: path.clone(), source };
        let writer = Writer::new(file, header).map_err(failed)?;
        let numbers = Arc::clone(&writer.numbers);
        let (messages, received) = channel();
        let free = slots.free();
        let calls = Calls::default();
        let written = Arc::clone(&calls);
        let writing =
            LogThread { shared: Arc::clone(&shared), shape, received, writer, free, written };
        let writing = Builder::new().spawn(|| writing.run()).map_err(failed)?;
        let (liveness, stopped) = channel();
        let watched = Arc::clone(&shared);
        Builder::new().spawn(move || raise_liveness(&watched, &stopped)).map_err(failed)?;
        let (writing, _liveness) = (Some(writing), liveness);
        let to_log = messages.clone();
        // The log thread receives the mark at its next check. The mark thread does not wait for
        // this.
        let on_mark = move |mark| drop(to_log.send(Message::Mark(mark)));
        let marking = marks.map(|marks| MarkThread::start(&marks, on_mark)).transpose()?;
        Ok(Log {
            path,
            shared,
            shape,
            slots,
            messages,
            writing,
            calls,
            numbers,
            marking,
            _liveness,
            tsc_hz,
        })
    }

    /// Allows or forbids that tags make system calls when a buffer is full.
    pub fn allow_calls(&self, allowed: bool) {
        self.shared.memory.write(header::NO_CALLS, u32::from(!allowed));
        // Without system calls no thread can sleep, so threads that wait are told to check again.
        if !allowed {
            self.shared.memory.write(header::SLEEPS, 0);
        }
    }

    /// Assigns more numbers to functions and blocks. Records with numbers that were not assigned
    /// are damaged.
    pub fn add(&self, functions: usize) {
        self.numbers.fetch_add(functions as u64, Ordering::SeqCst);
    }

    /// Number of entries of each function and block in the records written so far.
    pub fn calls(&self) -> Vec<u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The shared memory with the slots.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Assigns a buffer to a stopped thread.
    pub fn add_thread(&mut self, thread: StoppedThread<'_>) -> Result<(), TagError> {
        let slot = self.slots.add_thread(thread)?;
        let (pid, thread) = (thread.pid(), thread.id());
        let number = thread.as_raw() as u32;
        let drain = Drain::new(&self.shared, &self.shape, number, slot);
        let name = std::fs::read(format!("/proc/{pid}/task/{thread}/comm"));
        let name = name.unwrap_or_default().trim_ascii_end().to_vec();
        self.send(Message::ThreadStarted(drain, name));
        Ok(())
    }

    /// Handles the end of a thread.
    pub fn remove_thread(&mut self, thread: Pid) {
        if let Some(slot) = self.slots.remove_thread(thread) {
            self.send(Message::ThreadEnded(slot));
        }
    }

    fn send(&self, message: Message) {
        // The log thread receives messages until it is asked to finish.
        let _ = self.messages.send(message);
        self.shared.wake(header::DOORBELL);
    }

    /// Writes all remaining records, and ends the log. All threads are stopped or have ended. Later
    /// records are lost, and threads that write them do not wait.
    pub fn finish(&mut self, ending: Ending) -> Result<LogSummary, TagError> {
        self.shared.memory.write(header::DEAD, 1);
        if let Some(marking) = self.marking.take() {
            marking.finish();
        }
        self.send(Message::Finish(ending));
        let written = self.writing.take().map(JoinHandle::join);
        let gone = || Err(io::Error::other("the log thread has ended early"));
        let written = written.and_then(Result::ok).unwrap_or_else(gone);
        let (operation, path) = ("write the log", self.path.clone());
        written.map_err(|source| TagError::Log { operation, path, source })
    }
}

fn raise_liveness(shared: &Shared, stopped: &Receiver<()>) {
    let mut liveness = 0u32;
    while stopped.recv_timeout(LIVENESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        liveness = liveness.wrapping_add(1);
        shared.memory.write(header::LIVENESS, liveness);
    }
}

/// State of the log thread.
struct LogThread {
    shared: Arc<Shared>,
    shape: LogShape,
    received: Receiver<Message>,
    writer: Writer,
    free: FreeSlots,
    written: Calls,
}

impl LogThread {
    fn run(mut self) -> io::Result<LogSummary> {
        let mut drains = Vec::new();
        let mut was_idle = false;
        loop {
            // A chunk that is handed over before this word is written causes no wake-up. The check
            // that follows finds the chunk.
            let is_silent = !self.shared.memory.read(header::NO_CALLS).is(0);
            let sleeps = u32::from(was_idle && !is_silent);
            self.shared.memory.write(header::SLEEPS, sleeps);
            let doorbell = self.shared.memory.read(header::DOORBELL).any();
            let mut is_idle = true;
            loop {
                match self.received.try_recv() {
                    Ok(Message::Finish(ending)) => return self.finish(drains, ending),
                    Ok(message) => self.handle_message(&mut drains, message),
                    Err(TryRecvError::Empty) => break,
                    // The log was dropped without an end. Records that were written so far stay in
                    // the file.
                    Err(TryRecvError::Disconnected) => {
                        return self.finish(drains, Ending::Detached);
                    }
                }
                is_idle = false;
            }
            for drain in &mut drains {
                is_idle &= !drain.drain(&self.shared, &self.shape, &mut self.writer);
            }
            if !is_idle {
                let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                written.clone_from(&self.writer.calls);
            }
            self.writer.write_clocks();
            if is_idle && was_idle {
                self.shared.wait(header::DOORBELL, doorbell, SLEEP);
            }
            was_idle = is_idle;
        }
    }

    fn handle_message(&mut self, drains: &mut Vec<Drain>, message: Message) {
        match message {
            Message::ThreadStarted(drain, name) => {
                self.writer.write(drain.thread, Content::ThreadStart { name: &name });
                drains.push(drain);
            }
            Message::ThreadEnded(slot) => {
                if let Some(at) = drains.iter().position(|drain| drain.slot == slot) {
                    self.end(&mut drains.swap_remove(at));
                    self.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
                }
            }
            Message::Mark(mark) => self.writer.write(0, Content::Mark(mark)),
            Message::Finish(_) => {}
        }
    }

    fn end(&mut self, drain: &mut Drain) {
        drain.finish(&self.shared, &self.shape, &mut self.writer);
        self.writer.write(drain.thread, Content::ThreadEnd);
    }

    fn finish(mut self, mut drains: Vec<Drain>, ending: Ending) -> io::Result<LogSummary> {
        for drain in &mut drains {
            match ending {
                Ending::Detached => {
                    drain.finish(&self.shared, &self.shape, &mut self.writer);
                    drain.release(&self.shared, &self.shape);
                }
                _ => self.end(drain),
            }
        }
        self.writer.finish(ending)
    }
}
