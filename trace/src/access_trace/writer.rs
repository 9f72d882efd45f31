//! Writes a file, chunk by chunk.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::time::Duration;

use hmtt_format::access_trace::{
    BLOCKS, BlockAccesses, CHOSEN, ChunkHeader, END, FUNCTIONS, Function, GAP, MOST_BYTES,
    MOST_DESCRIBED, REGION, RecordedRegion, UNITS, UNRECORDED, Unrecorded, header,
};
use zstd::bulk::Compressor;

use super::encoders::{Encoded, Encoders};
use super::file_numbers::{Added, FileNumbers};

/// Level of compression of descriptions.
const LEVEL: i32 = 1;
/// Most bytes of units in a chunk of the file. As columns they may be larger by one seventh.
const MOST_UNITS: usize = MOST_BYTES / 4 * 3;

/// Most chunks of units whose memory is kept.
const MOST_MEMORY: usize = 4;

/// A chunk, in the order of the file.
enum Next {
    /// Units of a thread, which are being encoded.
    Units(u32),
    /// Another chunk.
    Chunk(ChunkHeader, Vec<u8>),
}

/// Writes a file.
pub struct Writer<W> {
    output: W,
    compressor: Compressor<'static>,
    encoders: Encoders,
    numbers: FileNumbers,
    /// What is not written yet.
    next: VecDeque<Next>,
    /// The base of `fs` of each thread.
    bases: HashMap<u32, u64>,
    /// Memory for units.
    memory: Vec<Vec<u8>>,
    /// Bytes of all descriptions.
    described: usize,
    /// Chunks of units whose ends are missing.
    cut_chunks: u64,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterOptions {
    /// Only some accesses were recorded, as was asked for.
    pub is_chosen: bool,
    /// Threads that encode and compress; 0 if that is done by the thread that writes.
    pub threads: usize,
}

impl<W: Write> Writer<W> {
    /// Begins a file with all accesses. It is written by this thread.
    ///
    /// # Errors
    /// The error of writing.
    pub fn new(output: W) -> io::Result<Self> {
        Self::begin(output, WriterOptions::default())
    }

    /// Begins a file.
    ///
    /// # Errors
    /// The error of writing.
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

    /// Adds a chunk without units.
    fn chunk(&mut self, kind: u32, content: &[u8]) -> io::Result<()> {
        let compressed = self.compressor.compress(content)?;
        let header = chunk_header(kind, 0, content.len(), &compressed);
        self.next.push_back(Next::Chunk(header, compressed));
        self.write(false)
    }

    /// Writes descriptions into as many chunks as they need.
    fn descriptions<T>(
        &mut self,
        kind: u32,
        all: &[T],
        write: impl Fn(&T, &mut Vec<u8>),
    ) -> io::Result<()> {
        let mut content = Vec::new();
        for one in all {
            let before = content.len();
            write(one, &mut content);
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

    /// Writes the descriptions of the next functions.
    ///
    /// # Errors
    /// The error of writing.
    pub fn functions(&mut self, functions: &[Function]) -> io::Result<()> {
        let new = self.numbers.add_functions(functions);
        self.descriptions(FUNCTIONS, &new, Function::write)
    }

    /// Writes the descriptions of the next blocks. Their functions have been written.
    ///
    /// # Errors
    /// The error of writing.
    pub fn blocks(&mut self, blocks: &[BlockAccesses]) -> io::Result<()> {
        let Added { new, numbers } = self.numbers.add_blocks(blocks);
        self.encoders.add_blocks(&new, &numbers);
        self.descriptions(BLOCKS, &new, BlockAccesses::write)
    }

    /// The program has run natively for so long, and blocks and functions are numbered from 1 on
    /// again. Those that are the same as before are not described again.
    ///
    /// # Errors
    /// The error of writing.
    pub fn resume(&mut self, native: Duration) -> io::Result<()> {
        self.write(true)?;
        self.numbers.begin();
        self.encoders.begin();
        let nanoseconds = u64::try_from(native.as_nanos()).unwrap_or(u64::MAX);
        self.chunk(GAP, &nanoseconds.to_le_bytes())
    }

    /// Adds units of a thread as a chunk, at most three quarters of [`MOST_BYTES`]. They begin with
    /// a number or a note.
    ///
    /// # Errors
    /// The error of writing this chunk or one before it, or there are too many units.
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

    /// Memory of units that were written, to be used for others.
    pub fn take_memory(&mut self) -> Vec<u8> {
        self.memory.pop().unwrap_or_default()
    }

    /// Bytes of all descriptions.
    #[cfg(test)]
    pub const fn described(&self) -> usize {
        self.described
    }

    /// Writes what is encoded. `waits`: whether it waits for all.
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

    /// States what has run natively up to here although that was not asked for.
    ///
    /// # Errors
    /// The error of writing.
    pub fn unrecorded(&mut self, all: Unrecorded) -> io::Result<()> {
        self.chunk(UNRECORDED, &all.to_bytes())
    }

    /// States which region was to be recorded, and how much of it was up to here.
    ///
    /// # Errors
    /// The error of writing.
    pub fn region(&mut self, region: RecordedRegion) -> io::Result<()> {
        self.chunk(REGION, &region.to_bytes())
    }

    /// Writes all that is not written yet. Returns how many chunks of units are not in the file to
    /// their ends, because they name no block.
    ///
    /// # Errors
    /// The error of writing.
    pub fn cut_chunks(&mut self) -> io::Result<u64> {
        self.write(true)?;
        Ok(self.cut_chunks)
    }

    /// Ends the file. Returns the output.
    ///
    /// # Errors
    /// The error of writing.
    pub fn finish(mut self, dropped: u64, cut_threads: u64) -> io::Result<W> {
        let content = [dropped.to_le_bytes(), cut_threads.to_le_bytes()].concat();
        self.chunk(END, &content)?;
        self.write(true)?;
        self.output.flush()?;
        Ok(self.output)
    }
}

/// The header of a chunk with a content of so many bytes, which is written as `written`.
fn chunk_header(kind: u32, thread: u32, bytes: usize, written: &[u8]) -> ChunkHeader {
    let (compressed, bytes) = (written.len() as u32, bytes as u32);
    ChunkHeader { kind, thread, compressed, bytes, checksum: crc32fast::hash(written) }
}
