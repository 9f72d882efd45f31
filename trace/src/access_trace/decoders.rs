//! Decompresses chunks of units and reads their columns, on threads of their own if there are
//! several chunks.
//!
//! ```text
//! chunk -> job -> a thread's zstd and predictor -> units, in the order of the chunks
//! ```
//!
//! Chunks are read without those before them, except for the blocks and paths that are described
//! before them. These are shared; each job states how many of them its chunk may name, because
//! threads may know later ones already.
//!
//! Invariant: at most [`JOBS_PER_THREAD`] chunks for each thread are in memory.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use hmtt_format::access_trace::BlockAccesses;
use zstd::bulk::Decompressor;

use super::chunk::Chunk;
use super::columns;
use super::content::{Content, ReadError};
use super::predictor::{Layouts, Predictor};

/// Chunks in memory for each thread: one that is decoded, and one that waits for a thread or to be
/// asked for.
const JOBS_PER_THREAD: usize = 2;

/// Layouts that all threads share.
type Shared = Arc<RwLock<Layouts>>;

/// What a thread needs to decode chunks.
struct Worker {
    predictor: Predictor,
    decompressor: Decompressor<'static>,
    layouts: Shared,
}

impl Worker {
    fn new(layouts: Shared) -> io::Result<Self> {
        Ok(Worker { predictor: Predictor::default(), decompressor: Decompressor::new()?, layouts })
    }

    /// Decodes a chunk that may name the first `known` numbers.
    fn decode(&mut self, chunk: &Chunk, known: usize) -> Result<Content, ReadError> {
        self.predictor.learn(&self.layouts.read().unwrap_or_else(PoisonError::into_inner));
        self.predictor.restrict(known);
        let (fs, content) = chunk.unpack(&mut self.decompressor)?;
        let bytes = columns::decode(&content, &mut self.predictor);
        let bytes = bytes.ok_or_else(|| chunk.damaged("its content is not valid"))?;
        Ok(Content::Units { thread: chunk.header.thread, fs, bytes })
    }
}

/// The content of a chunk.
pub enum Pending {
    /// It is known.
    Ready(Result<Content, ReadError>),
    /// A thread finds it.
    Later(Receiver<Result<Content, ReadError>>),
}

impl Pending {
    /// Waits for the content.
    ///
    /// # Errors
    /// The chunk is damaged.
    pub fn wait(self) -> Result<Content, ReadError> {
        match self {
            Pending::Ready(content) => content,
            Pending::Later(content) => content.recv().unwrap_or_else(|_| {
                Err(io::Error::other("a thread that decodes chunks has ended early").into())
            }),
        }
    }
}

/// What a thread has to do.
struct Job {
    chunk: Chunk,
    known: usize,
    content: Sender<Result<Content, ReadError>>,
}

/// Threads that decode chunks.
struct Threads {
    jobs: Sender<Job>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts as many threads as there can be of those that are wanted.
    fn start(wanted: usize, layouts: &Shared) -> Self {
        let (jobs, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let start = || {
            let (mut worker, receiver) = (Worker::new(layouts.clone())?, receiver.clone());
            std::thread::Builder::new().name("decoder".into()).spawn(move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { chunk, known, content }) = job else { return };
                    // Nobody waits any more if reading has ended.
                    let _ = content.send(worker.decode(&chunk, known));
                }
            })
        };
        Threads { jobs, handles: (0..wanted).map_while(|_| start().ok()).collect() }
    }
}

impl Drop for Threads {
    /// Ends the threads.
    fn drop(&mut self) {
        self.jobs = channel().0;
        self.handles.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Decodes chunks of units.
pub struct Decoders {
    layouts: Shared,
    own: Worker,
    /// Whether a chunk was added: one alone needs no threads.
    has_one: bool,
    /// How many threads are wanted, until they are started.
    wanted: usize,
    threads: Option<Threads>,
}

impl Decoders {
    /// Decodes by at most this many threads; without any, chunks are decoded by the thread that
    /// adds them.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(threads: usize) -> io::Result<Self> {
        let layouts = Shared::default();
        let own = Worker::new(layouts.clone())?;
        Ok(Decoders { layouts, own, has_one: false, wanted: threads, threads: None })
    }

    /// How many chunks are in memory at most.
    pub fn most_pending(&self) -> usize {
        let threads = self.threads.as_ref().map_or(self.wanted, |threads| threads.handles.len());
        (JOBS_PER_THREAD * threads).max(1)
    }

    /// Adds the next blocks and paths.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) {
        self.layouts.write().unwrap_or_else(PoisonError::into_inner).add(blocks);
    }

    /// Adds a chunk of units, which may name the blocks and paths that were added before it.
    pub fn add(&mut self, chunk: Chunk) -> Pending {
        let known = self.layouts.read().unwrap_or_else(PoisonError::into_inner).numbers();
        if self.has_one && self.wanted > 0 {
            self.threads = Some(Threads::start(std::mem::take(&mut self.wanted), &self.layouts));
        }
        self.has_one = true;
        match &self.threads {
            Some(threads) if !threads.handles.is_empty() => {
                let (sender, content) = channel();
                // Threads do not end before this; if one did, waiting for the content is an error.
                let _ = threads.jobs.send(Job { chunk, known, content: sender });
                Pending::Later(content)
            }
            _ => Pending::Ready(self.own.decode(&chunk, known)),
        }
    }
}
