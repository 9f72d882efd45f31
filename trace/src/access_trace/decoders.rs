//! Decompresses chunks of units and decodes their columns. Worker threads do this in parallel if a
//! file has several such chunks.
//!
//! ```text
//! chunk -> job -> zstd and predictor of a worker -> units, in the order of the chunks
//! ```
//!
//! A chunk is decoded without the units of earlier chunks. It only needs the blocks and paths that
//! are described before it. All workers share these descriptions. The reader adds descriptions
//! while workers decode, so each job states how many numbers its chunk may name.
//!
//! Invariant: at most [`JOBS_PER_THREAD`] chunks for each worker are in memory.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use hmtt_files::access_trace::BlockAccesses;
use zstd::bulk::Decompressor;

use super::chunk::Chunk;
use super::columns;
use super::content::{Content, ReadError};
use super::predictor::{Layouts, Predictor};

/// Chunks in memory for each worker: one is being decoded, and one waits for a worker or for the
/// caller of [`Pending::wait`].
const JOBS_PER_THREAD: usize = 2;

/// Layouts that all workers share.
type Shared = Arc<RwLock<Layouts>>;

/// The state with which one thread decodes chunks.
struct Worker {
    predictor: Predictor,
    decompressor: Decompressor<'static>,
    layouts: Shared,
}

impl Worker {
    fn new(layouts: Shared) -> io::Result<Self> {
        Ok(Worker { predictor: Predictor::default(), decompressor: Decompressor::new()?, layouts })
    }

    /// Decodes a chunk. Numbers from `known` on are not described before the chunk, so it is
    /// damaged if it names one.
    fn decode(&mut self, chunk: &Chunk, known: usize) -> Result<Content, ReadError> {
        self.predictor.learn(&self.layouts.read().unwrap_or_else(PoisonError::into_inner));
        self.predictor.restrict(known);
        let (fs, content) = chunk.unpack(&mut self.decompressor)?;
        let bytes = columns::decode(&content, &mut self.predictor);
        let bytes = bytes.ok_or_else(|| chunk.damaged("its content is not valid"))?;
        Ok(Content::Units { thread: chunk.header.thread, fs, bytes })
    }
}

/// The content of a chunk, which a worker may still be decoding.
pub enum Pending {
    /// The content, or the error, is available.
    Ready(Result<Content, ReadError>),
    /// A worker will send the content.
    Later(Receiver<Result<Content, ReadError>>),
}

impl Pending {
    /// Waits until the content is available.
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

/// A chunk to decode, and the channel for its content. The chunk may name the numbers below
/// `known`.
struct Job {
    chunk: Chunk,
    known: usize,
    content: Sender<Result<Content, ReadError>>,
}

/// The worker threads, and the channel that distributes jobs to them.
struct Threads {
    jobs: Sender<Job>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts `wanted` threads, or fewer if the system allows no more.
    fn start(wanted: usize, layouts: &Shared) -> Self {
        let (jobs, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let start = || {
            let (mut worker, receiver) = (Worker::new(layouts.clone())?, receiver.clone());
            std::thread::Builder::new().name("decoder".into()).spawn(move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { chunk, known, content }) = job else { return };
                    // The receiver is gone if the reader was dropped.
                    let _ = content.send(worker.decode(&chunk, known));
                }
            })
        };
        Threads { jobs, handles: (0..wanted).map_while(|_| start().ok()).collect() }
    }
}

impl Drop for Threads {
    /// Closes the channel of jobs, and waits for the threads to end.
    fn drop(&mut self) {
        self.jobs = channel().0;
        self.handles.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Decodes chunks of units.
pub struct Decoders {
    layouts: Shared,
    own: Worker,
    /// Whether a chunk was added. The threads start with the second chunk, because one alone needs
    /// none.
    has_one: bool,
    /// Number of threads to start; 0 once they are started.
    wanted: usize,
    threads: Option<Threads>,
}

impl Decoders {
    /// Decodes with at most `threads` threads. With 0, the thread that adds a chunk decodes it.
    ///
    /// # Errors
    /// zstd finds no memory.
    pub fn new(threads: usize) -> io::Result<Self> {
        let layouts = Shared::default();
        let own = Worker::new(layouts.clone())?;
        Ok(Decoders { layouts, own, has_one: false, wanted: threads, threads: None })
    }

    /// Highest number of chunks that the caller should add before it takes the first content. At
    /// least 1.
    pub fn most_pending(&self) -> usize {
        let threads = self.threads.as_ref().map_or(self.wanted, |threads| threads.handles.len());
        (JOBS_PER_THREAD * threads).max(1)
    }

    /// Adds blocks and paths, which get the next numbers.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) {
        self.layouts.write().unwrap_or_else(PoisonError::into_inner).add(blocks);
    }

    /// Starts to decode a chunk of units. It may name the blocks and paths that were added before
    /// this call.
    pub fn add(&mut self, chunk: Chunk) -> Pending {
        let known = self.layouts.read().unwrap_or_else(PoisonError::into_inner).numbers();
        if self.has_one && self.wanted > 0 {
            self.threads = Some(Threads::start(std::mem::take(&mut self.wanted), &self.layouts));
        }
        self.has_one = true;
        match &self.threads {
            Some(threads) if !threads.handles.is_empty() => {
                let (sender, content) = channel();
                // The threads run as long as `self`. If all have ended, `Pending::wait` returns an
                // error.
                let _ = threads.jobs.send(Job { chunk, known, content: sender });
                Pending::Later(content)
            }
            _ => Pending::Ready(self.own.decode(&chunk, known)),
        }
    }
}
