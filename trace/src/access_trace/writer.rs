//! Writes a file, chunk by chunk.

use std::collections::HashMap;
use std::io::{self, Write};

use hmtt_format::access_trace::{
    BLOCKS, BlockAccesses, CHOSEN, ChunkHeader, END, FUNCTIONS, Function, MOST_BYTES,
    MOST_DESCRIBED, UNITS, header,
};
use zstd::bulk::Compressor;

use super::columns::Encoder;

/// Level of compression: the content is compressed while the program runs.
const LEVEL: i32 = 1;
/// Most bytes of units in a chunk of the file. As columns they may be larger by one seventh.
const MOST_UNITS: usize = MOST_BYTES / 4 * 3;
/// Most threads whose units are collected at the same time.
const MOST_THREADS: usize = 8;

/// Writes a file.
pub struct Writer<W> {
    output: W,
    compressor: Compressor<'static>,
    /// Collects the units of threads, from the thread that wrote least recently on.
    collected: Vec<(u32, Encoder)>,
    /// Knows all blocks, and nothing else.
    empty: Encoder,
    /// The base of `fs` of each thread.
    bases: HashMap<u32, u64>,
    content: Vec<u8>,
    /// Bytes of all descriptions.
    described: usize,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The error of writing.
    pub fn new(output: W) -> io::Result<Self> {
        Self::begin(output, 0)
    }

    /// Begins a file for which only some accesses were recorded, as was asked for.
    ///
    /// # Errors
    /// The error of writing.
    pub fn of_chosen(output: W) -> io::Result<Self> {
        Self::begin(output, CHOSEN)
    }

    fn begin(mut output: W, flags: u32) -> io::Result<Self> {
        output.write_all(&header(flags))?;
        Ok(Writer {
            output,
            compressor: Compressor::new(LEVEL)?,
            collected: Vec::new(),
            empty: Encoder::default(),
            bases: HashMap::new(),
            content: Vec::new(),
            described: 0,
        })
    }

    fn chunk(&mut self, kind: u32, thread: u32, content: &[u8]) -> io::Result<()> {
        let compressed = self.compressor.compress(content)?;
        let header = ChunkHeader {
            kind,
            thread,
            compressed: compressed.len() as u32,
            bytes: content.len() as u32,
            checksum: crc32fast::hash(&compressed),
        };
        self.output.write_all(&header.to_bytes())?;
        self.output.write_all(&compressed)
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
                self.chunk(kind, 0, &content[..before])?;
                content.drain(..before);
            }
        }
        if content.is_empty() { Ok(()) } else { self.chunk(kind, 0, &content) }
    }

    /// Writes the descriptions of the next functions.
    ///
    /// # Errors
    /// The error of writing.
    pub fn functions(&mut self, functions: &[Function]) -> io::Result<()> {
        self.descriptions(FUNCTIONS, functions, Function::write)
    }

    /// Writes the descriptions of the next blocks. Their functions have been written.
    ///
    /// # Errors
    /// The error of writing.
    pub fn blocks(&mut self, blocks: &[BlockAccesses]) -> io::Result<()> {
        let encoders = self.collected.iter_mut().map(|(_, encoder)| encoder);
        encoders.chain([&mut self.empty]).for_each(|encoder| encoder.add_blocks(blocks));
        self.descriptions(BLOCKS, blocks, BlockAccesses::write)
    }

    /// Adds units of a thread, at most half of [`MOST_BYTES`]. They begin with a number or a note, and are written together
    /// with others.
    ///
    /// # Errors
    /// The error of writing.
    pub fn units(&mut self, thread: u32, units: &[u8]) -> io::Result<()> {
        let mut encoder = match self.collected.iter().position(|(other, _)| *other == thread) {
            Some(place) => self.collected.remove(place).1,
            None if self.collected.len() < MOST_THREADS => self.empty.clone(),
            None => {
                let (other, mut encoder) = self.collected.remove(0);
                self.write(other, &mut encoder)?;
                encoder
            }
        };
        if encoder.bytes() > 0 && encoder.bytes() + units.len() > MOST_UNITS {
            self.write(thread, &mut encoder)?;
        }
        let is_valid = encoder.add(units, self.bases.entry(thread).or_default());
        if !is_valid {
            self.write(thread, &mut encoder)?;
        }
        self.collected.push((thread, encoder));
        Ok(())
    }

    /// Writes what was collected of a thread.
    fn write(&mut self, thread: u32, encoder: &mut Encoder) -> io::Result<()> {
        if encoder.bytes() == 0 {
            return Ok(());
        }
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        encoder.take(&mut content);
        self.chunk(UNITS, thread, &content)?;
        self.content = content;
        Ok(())
    }

    /// Ends the file. Returns the output.
    ///
    /// # Errors
    /// The error of writing.
    pub fn finish(mut self, dropped: u64, cut_threads: u64) -> io::Result<W> {
        for (thread, mut encoder) in std::mem::take(&mut self.collected) {
            self.write(thread, &mut encoder)?;
        }
        let content = [dropped.to_le_bytes(), cut_threads.to_le_bytes()].concat();
        self.chunk(END, 0, &content)?;
        self.output.flush()?;
        Ok(self.output)
    }
}
