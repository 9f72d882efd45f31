//! Writes a file of accesses, chunk by chunk.
//!
//! Chunks of units are encoded by [`Encoders`], possibly on other threads. They are written in the
//! order in which they were added, also relative to other chunks.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::time::Duration;

use hmtt_files::access_trace::{
    BLOCKS, BlockAccesses, CHOSEN, ChunkHeader, END, FUNCTIONS, Function, GAP, MOST_BYTES,
    MOST_DESCRIBED, REGION, RecordedRegion, UNITS, UNRECORDED, Unrecorded, header,
};
use zstd::bulk::Compressor;

use super::encoders::{Encoded, Encoders};
use super::file_numbers::{Added, FileNumbers};

/// Level of compression for chunks without units.
const LEVEL: i32 = 1;
/// Maximum number of bytes of units in a chunk of the file. Units that are encoded as columns may
/// be larger by one seventh.
const MOST_UNITS: usize = MOST_BYTES / 4 * 3;

/// Maximum number of written chunks of units whose memory is kept for reuse.
const MOST_MEMORY: usize = 4;

/// A chunk that is not written yet, in the order of the file.
enum Next {
    /// Units of a thread, by its number. They are being encoded.
    Units(u32),
    /// A chunk without units, which is ready.
    Chunk(ChunkHeader, Vec<u8>),
}

/// A writer of a file of accesses.
pub struct Writer<W> {
    output: W,
    compressor: Compressor<'static>,
    encoders: Encoders,
    numbers: FileNumbers,
    /// Chunks that are not written yet, in order.
    next: VecDeque<Next>,
    /// The base of the segment `fs` at the end of each thread's last written chunk.
    bases: HashMap<u32, u64>,
    /// Memory of written units, for reuse.
    memory: Vec<Vec<u8>>,
    /// Bytes of all descriptions of functions, blocks and paths, before compression.
    described: usize,
    /// Chunks of units whose ends were left out, because of an invalid unit.
    cut_chunks: u64,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterOptions {
    /// Whether only some accesses are recorded, as the user requested.
    pub is_chosen: bool,
    /// Number of threads that encode and compress units. With 0, the thread that writes does it.
    pub threads: usize,
}

impl<W: Write> Writer<W> {
    /// Begins a file of all accesses. The calling thread encodes the units.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn new(output: W) -> io::Result<Self> {
        Self::begin(output, WriterOptions::default())
    }

    /// Begins a file.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn begin(mut output: W, options: WriterOptions) -> io::Result<Self> {
        output.write_all(&header(if options.is_chosen { CHOSEN } else { 0 }))?;
        Ok(Writer {
            output,
            compressor: Compressor::new(LEVEL)?,
            encoders: Encoders::new(options.threads)?,
            numbers: FileNumbers::default(),
            next: VecDeque::new(),
            bases: HashMap::new(),
            memory: Vec::new(),
            described: 0,
            cut_chunks: 0,
        })
    }

    /// Adds a chunk without units, and writes the chunks that are ready.
    fn chunk(&mut self, kind: u32, content: &[u8]) -> io::Result<()> {
        let compressed = self.compressor.compress(content)?;
        let header = chunk_header(kind, 0, content.len(), &compressed);
        self.next.push_back(Next::Chunk(header, compressed));
        self.write(false)
    }

    /// Writes descriptions into as many chunks as they need. Fails if all descriptions together
    /// have more than [`MOST_DESCRIBED`] bytes.
    fn descriptions<T>(
        &mut self,
        kind: u32,
        descriptions: &[T],
        write: impl Fn(&T, &mut Vec<u8>),
    ) -> io::Result<()> {
        let mut content = Vec::new();
        for description in descriptions {
            let before = content.len();
            write(description, &mut content);
            self.described += content.len() - before;
            if self.described > MOST_DESCRIBED {
                let why = "the program has more code than a trace can describe";
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            if content.len() > MOST_BYTES {
                self.chunk(kind, &content[..before])?;
                content.drain(..before);
            }
        }
        if content.is_empty() { Ok(()) } else { self.chunk(kind, &content) }
    }

    /// Writes the descriptions of the program's next functions, as far as they are new in the file.
    ///
    /// # Errors
    /// All descriptions together have more than [`MOST_DESCRIBED`] bytes, or the output returns an
    /// error.
    pub fn functions(&mut self, functions: &[Function]) -> io::Result<()> {
        let new = self.numbers.add_functions(functions);
        self.descriptions(FUNCTIONS, &new, Function::write)
    }

    /// Writes the descriptions of the program's next blocks and paths, as far as they are new in
    /// the file. The functions that they name must have been written before.
    ///
    /// # Errors
    /// All descriptions together have more than [`MOST_DESCRIBED`] bytes, or the output returns an
    /// error.
    pub fn blocks(&mut self, blocks: &[BlockAccesses]) -> io::Result<()> {
        let Added { new, numbers } = self.numbers.add_blocks(blocks);
        self.encoders.add_blocks(&new, &numbers);
        self.descriptions(BLOCKS, &new, BlockAccesses::write)
    }

    /// States that the program has run natively for the duration `native`, and that it numbers
    /// blocks and functions from 1 on again. Descriptions that are in the file already are not
    /// written again.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn resume(&mut self, native: Duration) -> io::Result<()> {
        self.write(true)?;
        self.numbers.begin();
        self.encoders.begin();
        let nanoseconds = u64::try_from(native.as_nanos()).unwrap_or(u64::MAX);
        self.chunk(GAP, &nanoseconds.to_le_bytes())
    }

    /// Adds units of a thread as a chunk: at most three quarters of [`MOST_BYTES`] bytes. The first
    /// unit must be a number or a note. Empty units add no chunk.
    ///
    /// # Errors
    /// The units are too many, or the output returns an error for this chunk or an earlier one.
    pub fn units(&mut self, thread: u32, units: impl Into<Vec<u8>>) -> io::Result<()> {
        let units = units.into();
        if units.len() > MOST_UNITS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a chunk has too many units"));
        }
        if !units.is_empty() {
            self.encoders.add(units)?;
            self.next.push_back(Next::Units(thread));
        }
        self.write(false)
    }

    /// The memory of units that were written, for reuse. It may have old content, or be empty.
    pub fn take_memory(&mut self) -> Vec<u8> {
        self.memory.pop().unwrap_or_default()
    }

    /// Bytes of all descriptions of functions, blocks and paths, before compression.
    #[cfg(test)]
    pub const fn described(&self) -> usize {
        self.described
    }

    /// Writes chunks in order, up to the first chunk that is not ready. With `waits`, waits until
    /// all chunks are ready.
    fn write(&mut self, waits: bool) -> io::Result<()> {
        while let Some(next) = self.next.front() {
            match next {
                Next::Chunk(header, compressed) => {
                    self.output.write_all(&header.to_bytes())?;
                    self.output.write_all(compressed)?;
                }
                Next::Units(thread) => {
                    let thread = *thread;
                    let Some(encoded) = self.encoders.next(waits)? else { return Ok(()) };
                    self.write_units(thread, encoded)?;
                }
            }
            self.next.pop_front();
        }
        Ok(())
    }

    /// Writes a chunk of units, with the base of the segment `fs` before it.
    fn write_units(&mut self, thread: u32, encoded: Encoded) -> io::Result<()> {
        let Encoded { bytes, compressed, base, is_cut, memory } = encoded;
        self.cut_chunks += u64::from(is_cut);
        let base_before = self.bases.entry(thread).or_default();
        let content = [&base_before.to_le_bytes()[..], &compressed].concat();
        *base_before = base.unwrap_or(*base_before);
        if self.memory.len() < MOST_MEMORY {
            self.memory.push(memory);
        }
        self.output.write_all(&chunk_header(UNITS, thread, bytes, &content).to_bytes())?;
        self.output.write_all(&content)
    }

    /// States the counts of code, threads and processes that ran natively up to here although they
    /// were to be recorded.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn unrecorded(&mut self, unrecorded: Unrecorded) -> io::Result<()> {
        self.chunk(UNRECORDED, &unrecorded.to_bytes())
    }

    /// States which region was to be recorded, and how much of it was recorded up to here.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn region(&mut self, region: RecordedRegion) -> io::Result<()> {
        self.chunk(REGION, &region.to_bytes())
    }

    /// Writes all chunks that were added. Returns how many chunks of units are not complete in the
    /// file, because the program wrote an invalid unit.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn cut_chunks(&mut self) -> io::Result<u64> {
        self.write(true)?;
        Ok(self.cut_chunks)
    }

    /// Ends the file, and returns the output. `dropped`: words of 4 bytes that threads have
    /// dropped. `cut_threads`: threads whose last units are missing.
    ///
    /// # Errors
    /// The output returns an error.
    pub fn finish(mut self, dropped: u64, cut_threads: u64) -> io::Result<W> {
        let content = [dropped.to_le_bytes(), cut_threads.to_le_bytes()].concat();
        self.chunk(END, &content)?;
        self.write(true)?;
        self.output.flush()?;
        Ok(self.output)
    }
}

/// The header of a chunk. `bytes`: the number of bytes of its content. `written`: the bytes that
/// follow the header.
fn chunk_header(kind: u32, thread: u32, bytes: usize, written: &[u8]) -> ChunkHeader {
    let (compressed, bytes) = (written.len() as u32, bytes as u32);
    ChunkHeader { kind, thread, compressed, bytes, checksum: crc32fast::hash(written) }
}
