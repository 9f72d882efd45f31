//! Slots of threads to a log file, by a thread of ours that needs no ptrace.
//!
//! The thread that traces tells it which threads begin and end. It empties chunks as they are handed over,
//! and sleeps at a doorbell that those who hand over ring. Another thread does nothing but raise the
//! heartbeat: a slow disk is not a dead controller.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use hmtt_format::tag_log::{Content, Ending, Header, Mark};
use nix::unistd::Pid;

use super::drain::Drain;
use super::marks::{MarkOutput, Marking};
use super::slots::{Free, Slots};
use super::writer::{LogSummary, Writer};
use super::{Inherited, Shape, Shared, clock};
use crate::control::TagError;
use crate::ptrace::Process;
use crate::stubs::layout::{LogShape, header};

/// How often the heart beats. Who waits for us takes us for dead after 20 waits of 100 ms without.
const HEARTBEAT: Duration = Duration::from_millis(50);
/// How long we sleep at most when nobody rings.
const SLEEP: Duration = Duration::from_millis(10);

/// Where a log goes, and how.
#[derive(Debug)]
pub struct LogOutput {
    /// To be written from its start.
    pub file: File,
    /// Of the buffers.
    pub shape: LogShape,
    /// The same in the map that names the functions.
    pub map_id: [u8; 8],
    /// Marks on the memory bus meanwhile, if there are to be any.
    pub marks: Option<MarkOutput>,
}

/// What the thread that traces tells the one that writes.
#[derive(Debug)]
enum Message {
    Began(Drain, Vec<u8>),
    Ended(u64),
    Mark(Mark),
    Finish(Ending),
}

/// Entries of each function, as the thread that writes last told.
type Calls = Arc<Mutex<Vec<u64>>>;

/// A log that is being written.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    shape: LogShape,
    /// Which thread has which.
    pub slots: Slots,
    messages: Sender<Message>,
    writing: Option<JoinHandle<io::Result<LogSummary>>>,
    calls: Calls,
    /// How many numbers of functions and blocks were handed out.
    numbers: Arc<AtomicU64>,
    marking: Option<Marking>,
    /// The heart stops when this is dropped.
    _heart: Sender<()>,
    /// Ticks of the time stamp counter in a second, about.
    pub tsc_hz: u64,
}

impl Log {
    /// Makes room for records of at most so many functions, and begins the log.
    pub fn new(
        process: &mut Process,
        inherited: Option<Inherited>,
        output: LogOutput,
        at_most: usize,
    ) -> Result<Self, TagError> {
        let LogOutput { file, shape, map_id, marks } = output;
        let sizes = Shape { slot_bytes: shape.slot_bytes(), alignment: shape.chunk_bytes };
        let shared = Arc::new(Shared::new(process, inherited, sizes, at_most)?);
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
        let failed = |source| TagError::Log { source };
        let writer = Writer::new(file, header).map_err(failed)?;
        let numbers = Arc::clone(&writer.numbers);
        let (messages, received) = channel();
        let free = slots.free();
        let calls = Calls::default();
        let told = Arc::clone(&calls);
        let writing = Writing { shared: Arc::clone(&shared), shape, received, writer, free, told };
        let writing = Builder::new().spawn(|| writing.run()).map_err(failed)?;
        let (heart, stopped) = channel();
        let beating = Arc::clone(&shared);
        Builder::new().spawn(move || beat(&beating, &stopped)).map_err(failed)?;
        let (writing, _heart) = (Some(writing), heart);
        let to_log = messages.clone();
        // Whoever writes takes it when it looks next: nobody waits for it.
        let tell = move |mark| drop(to_log.send(Message::Mark(mark)));
        let marking = marks.map(|marks| Marking::start(&marks, tell)).transpose()?;
        Ok(Log { shared, shape, slots, messages, writing, calls, numbers, marking, _heart, tsc_hz })
    }

    /// Lets threads make system calls where a buffer is full, or not.
    pub fn allow_calls(&self, allowed: bool) {
        self.shared.memory.write(header::NO_CALLS, u32::from(!allowed));
        // Who waits looks again.
        if !allowed {
            self.shared.memory.write(header::SLEEPS, 0);
        }
    }

    /// Hands out more numbers of functions and blocks: records with others are damage.
    pub fn add(&self, functions: usize) {
        self.numbers.fetch_add(functions as u64, Ordering::SeqCst);
    }

    /// How often each function was entered, as far as that is written.
    pub fn calls(&self) -> Vec<u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The memory they are in.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Gives a thread that stands still a buffer.
    pub fn enter(&mut self, process: &Process, thread: Pid) -> Result<(), TagError> {
        let slot = self.slots.enter(process, thread)?;
        let number = thread.as_raw() as u32;
        let drain = Drain::new(&self.shared, &self.shape, number, slot);
        let name = std::fs::read(format!("/proc/{}/task/{thread}/comm", process.pid));
        let name = name.unwrap_or_default().trim_ascii_end().to_vec();
        self.tell(Message::Began(drain, name));
        Ok(())
    }

    /// Takes note that a thread has ended.
    pub fn leave(&mut self, thread: Pid) {
        if let Some(slot) = self.slots.leave(thread) {
            self.tell(Message::Ended(slot));
        }
    }

    fn tell(&self, message: Message) {
        // It listens until it is told to finish.
        let _ = self.messages.send(message);
        self.shared.wake(header::DOORBELL);
    }

    /// Writes what is left, and ends the log. Threads stand still or have ended; whatever they still write
    /// is lost, and they wait for nobody.
    pub fn finish(&mut self, ending: Ending) -> Result<LogSummary, TagError> {
        self.shared.memory.write(header::DEAD, 1);
        if let Some(marking) = self.marking.take() {
            marking.finish();
        }
        self.tell(Message::Finish(ending));
        let written = self.writing.take().map(JoinHandle::join);
        let gone = || Err(io::Error::other("the thread that writes it has ended"));
        let written = written.and_then(Result::ok).unwrap_or_else(gone);
        written.map_err(|source| TagError::Log { source })
    }
}

fn beat(shared: &Shared, stopped: &Receiver<()>) {
    let mut beats = 0u32;
    while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
        beats = beats.wrapping_add(1);
        shared.memory.write(header::HEARTBEAT, beats);
    }
}

/// What the thread that writes has.
struct Writing {
    shared: Arc<Shared>,
    shape: LogShape,
    received: Receiver<Message>,
    writer: Writer,
    free: Free,
    told: Calls,
}

impl Writing {
    fn run(mut self) -> io::Result<LogSummary> {
        let mut drains = Vec::new();
        let mut was_idle = false;
        loop {
            // Who hands something over before this is seen, is seen by the look after it.
            let is_silent = !self.shared.memory.read(header::NO_CALLS).is(0);
            let sleeps = u32::from(was_idle && !is_silent);
            self.shared.memory.write(header::SLEEPS, sleeps);
            let doorbell = self.shared.memory.read(header::DOORBELL).any();
            let mut is_idle = true;
            loop {
                match self.received.try_recv() {
                    Ok(Message::Finish(ending)) => return self.finish(drains, ending),
                    Ok(message) => self.take_note(&mut drains, message),
                    Err(TryRecvError::Empty) => break,
                    // Given up without an end: what was written so far stays.
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
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                told.clone_from(&self.writer.calls);
            }
            self.writer.say_time();
            if is_idle && was_idle {
                self.shared.wait(header::DOORBELL, doorbell, SLEEP);
            }
            was_idle = is_idle;
        }
    }

    fn take_note(&mut self, drains: &mut Vec<Drain>, message: Message) {
        match message {
            Message::Began(drain, name) => {
                self.writer.say(drain.thread, Content::ThreadStart { name: &name });
                drains.push(drain);
            }
            Message::Ended(slot) => {
                if let Some(at) = drains.iter().position(|drain| drain.slot == slot) {
                    self.end(&mut drains.swap_remove(at));
                    self.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
                }
            }
            Message::Mark(mark) => self.writer.say(0, Content::Mark(mark)),
            Message::Finish(_) => {}
        }
    }

    fn end(&mut self, drain: &mut Drain) {
        drain.finish(&self.shared, &self.shape, &mut self.writer);
        self.writer.say(drain.thread, Content::ThreadEnd);
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
