//! Reads a file, chunk by chunk.

use std::io::{self, Read};

use hmtt_format::access_trace::{
    BLOCKS, BlockAccesses, CHOSEN, CHUNK_HEADER_BYTES, ChunkHeader, END, FS_BYTES, FUNCTIONS,
    Function, GAP, HEADER_BYTES, MAGIC, MOST_DESCRIBED, UNITS, VERSION,
};
use thiserror::Error;
use zstd::bulk::Decompressor;

use super::column::take;
use super::columns;
use super::predictor::{Layouts, Predictor};

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is another kind of file.
    #[error("this is no trace of accesses: it does not begin with {}", String::from_utf8_lossy(&MAGIC))]
    OtherFile,
    /// It has a version that is not known.
    #[error("it has version {0} of the format; this program reads version {VERSION}")]
    Version(u32),
    /// A chunk is damaged.
    #[error("the chunk at byte {at} is damaged: {why}")]
    Damaged {
        /// Offset of the chunk in the file.
        at: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It cannot be read.
    #[error("it cannot be read")]
    Input(#[from] io::Error),
}

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Descriptions of functions.
    Functions(Vec<Function>),
    /// Descriptions of blocks.
    Blocks(Vec<BlockAccesses>),
    /// Units of a thread.
    Units {
        /// Number of the thread in the system.
        thread: u32,
        /// The base of the segment `fs` before them.
        fs: u64,
        /// The units.
        bytes: Vec<u8>,
    },
    /// The program ran natively, as was asked for.
    Gap {
        /// For how long, in nanoseconds.
        nanoseconds: u64,
    },
    /// Nothing follows.
    End {
        /// Words of 4 bytes that threads have dropped.
        dropped: u64,
        /// Threads whose last units are missing.
        cut_threads: u64,
    },
}

/// Reads the chunks of a file in order.
pub struct ChunkReader<R> {
    input: R,
    /// Offset of the next chunk, and of the one before it.
    next: u64,
    at: u64,
    /// Bytes of all descriptions.
    described: usize,
    /// Number of functions that were described.
    functions: usize,
    decompressor: Decompressor<'static>,
    layouts: Layouts,
    predictor: Predictor,
    is_chosen: bool,
}

/// Fills as much of a buffer as there is.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl<R: Read> ChunkReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ReadError`] if it is another file, or one of another version.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut found = [0; HEADER_BYTES];
        if fill(&mut input, &mut found)? < HEADER_BYTES || found[..8] != MAGIC {
            return Err(ReadError::OtherFile);
        }
        let number = |at: usize| {
            u32::from_le_bytes([found[at], found[at + 1], found[at + 2], found[at + 3]])
        };
        let (version, flags) = (number(8), number(12));
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        if flags & !CHOSEN != 0 {
            return Err(ReadError::Damaged {
                at: 12,
                why: "the file has flags that are not known",
            });
        }
        let is_chosen = flags & CHOSEN != 0;
        let at = HEADER_BYTES as u64;
        let (decompressor, predictor) = (Decompressor::new()?, Predictor::default());
        Ok(ChunkReader {
            input,
            next: at,
            at,
            described: 0,
            functions: 0,
            decompressor,
            layouts: Layouts::default(),
            predictor,
            is_chosen,
        })
    }

    /// Whether only some accesses were to be recorded.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Offset in the file of the chunk that was read last.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The next chunk. `None` if there is none, or only a part of one.
    ///
    /// # Errors
    /// [`ReadError`] if it is damaged, or cannot be read.
    pub fn next_chunk(&mut self) -> Result<Option<Content>, ReadError> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        if fill(&mut self.input, &mut bytes)? < CHUNK_HEADER_BYTES {
            return Ok(None);
        }
        self.at = self.next;
        let at = self.at;
        let damaged = |why| ReadError::Damaged { at, why };
        let header =
            ChunkHeader::from_bytes(bytes).ok_or_else(|| damaged("its size is not possible"))?;
        let mut compressed = Vec::new();
        // No more memory is used than the file has bytes.
        let length = u64::from(header.compressed);
        self.input.by_ref().take(length).read_to_end(&mut compressed)?;
        if (compressed.len() as u64) < length {
            return Ok(None);
        }
        self.next = at + CHUNK_HEADER_BYTES as u64 + length;
        if crc32fast::hash(&compressed) != header.checksum {
            return Err(damaged("its checksum is wrong"));
        }
        let mut frame = &compressed[..];
        let fs = match header.kind {
            UNITS => take(&mut frame, FS_BYTES).and_then(|base| base.try_into().ok()),
            _ => Some([0; FS_BYTES]),
        };
        let fs = fs.map(u64::from_le_bytes).ok_or_else(|| damaged("it is too short"))?;
        let content = self.decompressor.decompress(frame, header.bytes as usize);
        let content = content.ok().filter(|content| content.len() == header.bytes as usize);
        let content = content.ok_or_else(|| damaged("it cannot be decompressed"))?;
        if matches!(header.kind, FUNCTIONS | BLOCKS) {
            self.described += content.len();
            if self.described > MOST_DESCRIBED {
                return Err(damaged("there are more descriptions than a file may have"));
            }
        }
        let content = self.parse(header, fs, &content);
        let content = content.ok_or_else(|| damaged("its content is not valid"))?;
        match &content {
            Content::Functions(more) => self.functions += more.len(),
            Content::Blocks(blocks)
                if blocks.iter().any(|one| one.function as usize > self.functions) =>
            {
                return Err(damaged("a block is in a function that is not described"));
            }
            _ => {}
        }
        Ok(Some(content))
    }

    fn parse(&mut self, header: ChunkHeader, fs: u64, content: &[u8]) -> Option<Content> {
        match header.kind {
            FUNCTIONS => all(content, Function::parse).map(Content::Functions),
            BLOCKS => {
                let blocks = all(content, BlockAccesses::parse)?;
                self.layouts.add(&blocks);
                self.predictor.learn(&self.layouts);
                Some(Content::Blocks(blocks))
            }
            UNITS => {
                let bytes = columns::decode(content, &mut self.predictor)?;
                Some(Content::Units { thread: header.thread, fs, bytes })
            }
            GAP => {
                let nanoseconds = u64::from_le_bytes(content.try_into().ok()?);
                Some(Content::Gap { nanoseconds })
            }
            END => {
                let (numbers, []) = content.as_chunks::<8>() else { return None };
                let [dropped, cut_threads] = numbers else { return None };
                let [dropped, cut_threads] =
                    [dropped, cut_threads].map(|one| u64::from_le_bytes(*one));
                Some(Content::End { dropped, cut_threads })
            }
            _ => None,
        }
    }
}

/// All descriptions in bytes.
fn all<T>(mut rest: &[u8], parse: impl Fn(&[u8]) -> Option<(T, &[u8])>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (one, after) = parse(rest)?;
        all.push(one);
        rest = after;
    }
    Some(all)
}
