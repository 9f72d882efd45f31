//! Writes a file, chunk by chunk.

use std::io::{self, Write};

use hmtt_format::access_trace::{
    BLOCKS, BlockAccesses, ChunkHeader, END, MOST_BYTES, UNITS, header,
};
use zstd::bulk::Compressor;

/// Level of compression: the content is compressed while the program runs.
const LEVEL: i32 = 1;

/// Writes a file.
pub struct Writer<W> {
    output: W,
    compressor: Compressor<'static>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The error of writing.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(&header())?;
        Ok(Writer { output, compressor: Compressor::new(LEVEL)? })
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

    /// Writes the descriptions of the next blocks.
    ///
    /// # Errors
    /// The error of writing.
    pub fn blocks(&mut self, blocks: &[BlockAccesses]) -> io::Result<()> {
        let mut content = Vec::new();
        for block in blocks {
            let before = content.len();
            block.write(&mut content);
            if content.len() > MOST_BYTES {
                self.chunk(BLOCKS, 0, &content[..before])?;
                content.drain(..before);
            }
        }
        if content.is_empty() { Ok(()) } else { self.chunk(BLOCKS, 0, &content) }
    }

    /// Writes units of a thread, at most [`MOST_BYTES`]. They begin with a number or a note.
    ///
    /// # Errors
    /// The error of writing.
    pub fn units(&mut self, thread: u32, units: &[u8]) -> io::Result<()> {
        self.chunk(UNITS, thread, units)
    }

    /// Ends the file. Returns the output.
    ///
    /// # Errors
    /// The error of writing.
    pub fn finish(mut self, dropped: u64, cut_threads: u64) -> io::Result<W> {
        let content = [dropped.to_le_bytes(), cut_threads.to_le_bytes()].concat();
        self.chunk(END, 0, &content)?;
        self.output.flush()?;
        Ok(self.output)
    }
}
