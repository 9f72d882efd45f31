//! Encodes and compresses chunks of units, on worker threads if the caller wants some.
//!
//! ```text
//! units of a chunk -> job -> encoder and zstd of a worker -> encoded chunk, in the order of the jobs
//! ```
//!
//! Invariant: while more than [`JOBS_PER_THREAD`] chunks for each worker are in memory, the writer
//! waits for the first of them.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use hmtt_files::access_trace::BlockAccesses;
use zstd::bulk::Compressor;

use super::encoder::Encoder;
use super::predictor::Layouts;

/// Level of compression. It is fast, because the recorded program waits for it. With level 1,
/// columns of Lua and bzip2 took 56 and 22 % more time, and 11 and 15 % less space.
const LEVEL: i32 = -1;
/// Level of compression for large columns. Mostly random bits are left in them. With [`LEVEL`],
/// columns of bzip2 took 2.6 times the time, and 30 % less space.
const FAST_LEVEL: i32 = -20;
/// Columns are large if the number of their bytes, multiplied by this number, exceeds the number of
/// bytes of their units.
const LARGE_PART: usize = 6;
/// Maximum number of chunks in memory for each worker. If there are more, the writer waits.
const JOBS_PER_THREAD: usize = 3;

/// Layouts that all workers share.
type Shared = Arc<RwLock<Layouts>>;

/// An encoded chunk of units.
#[derive(Debug, Default)]
pub struct Encoded {
    /// Number of bytes of the columns before they were compressed.
    pub bytes: usize,
    /// The columns, compressed.
    pub compressed: Vec<u8>,
    /// The base of the segment `fs` in the last note with a base; `None` if there is no such note.
    pub base: Option<u64>,
    /// Whether the chunk has an invalid unit, so that its end was left out.
    pub is_cut: bool,
    /// The units that were encoded. Their memory can be reused.
    pub memory: Vec<u8>,
}

/// The state with which one thread encodes and compresses chunks.
struct Worker {
    encoder: Encoder,
    compressor: Compressor<'static>,
    content: Vec<u8>,
    layouts: Shared,
}

impl Worker {
    fn new(layouts: Shared) -> io::Result<Self> {
        let (encoder, compressor) = (Encoder::default(), Compressor::new(LEVEL)?);
        Ok(Worker { encoder, compressor, content: Vec::new(), layouts })
    }

    /// Encodes and compresses the units of a chunk. `known`: how many numbers of the program are
    /// described before the chunk.
    fn encode(&mut self, units: Vec<u8>, known: usize) -> io::Result<Encoded> {
        self.encoder.learn(&self.layouts.read().unwrap_or_else(PoisonError::into_inner));
        self.content.clear();
        let base = self.encoder.encode(&units, known, &mut self.content);
        let is_large = self.content.len() > units.len() / LARGE_PART;
        self.compressor.set_compression_level(if is_large { FAST_LEVEL } else { LEVEL })?;
        let compressed = self.compressor.compress(&self.content)?;
        let is_cut = self.encoder.is_cut();
        Ok(Encoded { bytes: self.content.len(), compressed, base, is_cut, memory: units })
    }
}

/// Units to encode, and the channel for the result.
struct Job {
    units: Vec<u8>,
    /// How many numbers of the program are described before the units in the file.
    known: usize,
    encoded: Sender<io::Result<Encoded>>,
}

/// The threads that encode chunks.
enum Source {
    /// The thread that adds chunks encodes them. The queue has the encoded chunks.
    Own(Box<Worker>, VecDeque<Encoded>),
    Threads {
        jobs: Sender<Job>,
        pending: VecDeque<Receiver<io::Result<Encoded>>>,
        threads: Vec<JoinHandle<()>>,
    },
}

/// Encodes and compresses chunks, on worker threads or on the calling thread.
pub struct Encoders {
    layouts: Shared,
    source: Source,
}

impl Encoders {
    /// Starts `threads` worker threads, or fewer if the system allows no more. Without any, the
    /// thread that adds a chunk encodes it.
    ///
    /// # Errors
    /// zstd finds no memory.
    pub fn new(threads: usize) -> io::Result<Self> {
        let layouts = Shared::default();
        let (jobs, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let start = || {
            let (mut worker, receiver) = (Worker::new(layouts.clone())?, receiver.clone());
            std::thread::Builder::new().name("encoder".into()).spawn(move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { units, known, encoded }) = job else { return };
                    // The receiver is gone if the writer has failed.
                    let _ = encoded.send(worker.encode(units, known));
                }
            })
        };
        let threads: Vec<_> = (0..threads).map_while(|_| start().ok()).collect();
        if threads.is_empty() {
            let worker = Box::new(Worker::new(layouts.clone())?);
            return Ok(Encoders { layouts, source: Source::Own(worker, VecDeque::new()) });
        }
        Ok(Encoders {
            layouts,
            source: Source::Threads { jobs, pending: VecDeque::new(), threads },
        })
    }

    /// Adds blocks and paths. `new`: the descriptions that are new in the file. `numbers`: the
    /// number in the file for each of the program's next numbers.
    pub fn add_blocks(&mut self, new: &[BlockAccesses], numbers: &[u32]) {
        let mut layouts = self.layouts.write().unwrap_or_else(PoisonError::into_inner);
        layouts.add(new);
        layouts.add_current(numbers);
    }

    /// States that the program numbers blocks and paths from 1 on again. All chunks that were added
    /// before must have been encoded.
    pub fn begin(&mut self) {
        self.layouts.write().unwrap_or_else(PoisonError::into_inner).begin();
    }

    /// Adds the units of a chunk. The first unit must be a number or a note.
    ///
    /// # Errors
    /// The chunk cannot be compressed, or all workers have ended.
    pub fn add(&mut self, units: Vec<u8>) -> io::Result<()> {
        let known = self.layouts.read().unwrap_or_else(PoisonError::into_inner).current();
        match &mut self.source {
            Source::Own(worker, encoded) => encoded.push_back(worker.encode(units, known)?),
            Source::Threads { jobs, pending, .. } => {
                let (sender, receiver) = channel();
                jobs.send(Job { units, known, encoded: sender }).map_err(|_| ended())?;
                pending.push_back(receiver);
            }
        }
        Ok(())
    }

    /// The next encoded chunk, in the order in which units were added. Waits for it if `waits` is
    /// set, or if more than [`JOBS_PER_THREAD`] chunks for each worker are in memory. If it does
    /// not wait, returns `None` for a chunk that is not encoded yet. Also returns `None` if all
    /// chunks were returned.
    ///
    /// # Errors
    /// A chunk cannot be compressed, or a worker has ended early.
    pub fn next(&mut self, waits: bool) -> io::Result<Option<Encoded>> {
        match &mut self.source {
            Source::Own(_, encoded) => Ok(encoded.pop_front()),
            Source::Threads { pending, threads, .. } => {
                let waits = waits || pending.len() > JOBS_PER_THREAD * threads.len();
                let Some(first) = pending.front() else { return Ok(None) };
                let received = if waits {
                    first.recv().map_err(|_| ended())?
                } else {
                    match first.try_recv() {
                        Ok(received) => received,
                        Err(TryRecvError::Empty) => return Ok(None),
                        Err(TryRecvError::Disconnected) => return Err(ended()),
                    }
                };
                pending.pop_front();
                received.map(Some)
            }
        }
    }
}

impl Drop for Encoders {
    /// Closes the channel of jobs, and waits for the threads to end.
    fn drop(&mut self) {
        if let Source::Threads { jobs, threads, .. } = &mut self.source {
            *jobs = channel().0;
            threads.drain(..).for_each(|thread| drop(thread.join()));
        }
    }
}

/// The error that a worker has ended without a result.
fn ended() -> io::Error {
    io::Error::other("a thread that encodes chunks has ended early")
}
