//! Reads a file chunk by chunk, and returns the decoded contents.
//!
//! Refuses files with another beginning, version or flag, chunks that are damaged, blocks whose
//! functions are not described, and more than [`MOST_DESCRIBED`] bytes of descriptions.

use std::collections::VecDeque;
use std::io::{self, Read};

use hmtt_files::access_trace::{
    BLOCKS, BlockAccesses, CHOSEN, CHUNK_HEADER_BYTES, ChunkHeader, END, FUNCTIONS, Function, GAP,
    HEADER_BYTES, MAGIC, MOST_DESCRIBED, OLDEST_VERSION, REGION, RecordedRegion, UNITS, UNRECORDED,
    Unrecorded, VERSION,
};
use zstd::bulk::Decompressor;

use super::chunk::Chunk;
use super::content::{Content, ReadError};
use super::decoders::{Decoders, Pending};

/// Maximum number of threads that decode chunks. More threads would decode faster than the caller
/// analyses.
const MOST_THREADS: usize = 8;

/// A reader of the chunks of a file, in order.
///
/// On a machine with several processors, threads decode chunks of units before the caller asks for
/// them.
pub struct ChunkReader<R> {
    input: R,
    /// Offset of the next chunk to read, in bytes.
    next: u64,
    /// Offset of the chunk that was returned last, in bytes.
    at: u64,
    /// Bytes of all descriptions of functions, blocks and paths.
    described: usize,
    /// Number of described functions.
    functions: usize,
    decompressor: Decompressor<'static>,
    decoders: Decoders,
    /// Chunks that were read but not returned, in order, each with its offset.
    pending: VecDeque<(u64, Pending)>,
    /// Whether no more chunks are read, because the file has ended or is damaged.
    is_over: bool,
    /// Whether the flag [`CHOSEN`] is set.
    is_chosen: bool,
}

/// Fills a buffer, or the start of it if the input ends. Returns the number of bytes.
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
    /// Reads the header. If the machine has several processors, up to eight threads decode chunks.
    ///
    /// # Errors
    /// [`ReadError`]: the input is no such file, has another version or an unknown flag, or cannot
    /// be read.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_threads(input, if threads > 1 { threads.min(MOST_THREADS) } else { 0 })
    }

    /// Reads the header. At most `threads` threads decode chunks. With 0, the calling thread
    /// decodes them.
    ///
    /// # Errors
    /// [`ReadError`]: the input is no such file, has another version or an unknown flag, or cannot
    /// be read.
    pub fn with_threads(mut input: R, threads: usize) -> Result<Self, ReadError> {
        let mut header = [0; HEADER_BYTES];
        if fill(&mut input, &mut header)? < HEADER_BYTES || header[..8] != MAGIC {
            return Err(ReadError::OtherFile);
        }
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (version, flags) = (number(8), number(12));
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
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
        Ok(ChunkReader {
            input,
            next: at,
            at,
            described: 0,
            functions: 0,
            decompressor: Decompressor::new()?,
            decoders: Decoders::new(threads)?,
            pending: VecDeque::new(),
            is_over: false,
            is_chosen,
        })
    }

    /// Whether only some of the accesses were to be recorded.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Offset of the chunk that was returned last, in bytes from the start of the file. After an
    /// error it is the offset at which reading failed.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The content of the next chunk. `None` at the end of the file, also if it ends within a
    /// chunk.
    ///
    /// # Errors
    /// [`ReadError`]: the chunk is damaged, or cannot be read.
    pub fn next_chunk(&mut self) -> Result<Option<Content>, ReadError> {
        while !self.is_over && self.pending.len() < self.decoders.most_pending() {
            let next = self.read_chunk();
            self.is_over = !matches!(next, Ok(Some(_)));
            let next = next.map(|next| next.map(|(at, chunk)| (at, self.content(chunk))));
            match next.transpose() {
                Some(Ok(pending)) => self.pending.push_back(pending),
                Some(Err(error)) => self.pending.push_back((self.next, Pending::Ready(Err(error)))),
                None => {}
            }
        }
        let Some((at, pending)) = self.pending.pop_front() else { return Ok(None) };
        self.at = at;
        pending.wait().map(Some)
    }

    /// Reads a chunk. Returns its offset too. `None` at the end of the file, also if it ends within
    /// the chunk.
    fn read_chunk(&mut self) -> Result<Option<(u64, Chunk)>, ReadError> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        if fill(&mut self.input, &mut bytes)? < CHUNK_HEADER_BYTES {
            return Ok(None);
        }
        let at = self.next;
        let header = ChunkHeader::from_bytes(bytes)
            .ok_or(ReadError::Damaged { at, why: "its size is not possible" })?;
        let mut compressed = Vec::new();
        // Memory grows with the bytes that are read, not with the length that the header states.
        let length = u64::from(header.compressed);
        self.input.by_ref().take(length).read_to_end(&mut compressed)?;
        if (compressed.len() as u64) < length {
            return Ok(None);
        }
        self.next = at + CHUNK_HEADER_BYTES as u64 + length;
        Ok(Some((at, Chunk { at, header, compressed })))
    }

    /// Parses a chunk, or gives it to the decoders if it has units.
    fn content(&mut self, chunk: Chunk) -> Pending {
        match chunk.header.kind {
            UNITS => self.decoders.add(chunk),
            _ => Pending::Ready(self.parse(&chunk)),
        }
    }

    /// Checks and parses a chunk that has no units, and adds its descriptions.
    fn parse(&mut self, chunk: &Chunk) -> Result<Content, ReadError> {
        let (_, content) = chunk.unpack(&mut self.decompressor)?;
        if matches!(chunk.header.kind, FUNCTIONS | BLOCKS) {
            self.described += content.len();
            if self.described > MOST_DESCRIBED {
                return Err(chunk.damaged("there are more descriptions than a file may have"));
            }
        }
        let parsed = parse(chunk.header.kind, &content);
        let parsed = parsed.ok_or_else(|| chunk.damaged("its content is not valid"))?;
        match &parsed {
            Content::Functions(more) => self.functions += more.len(),
            Content::Blocks(blocks) => {
                if blocks.iter().any(|block| block.function as usize > self.functions) {
                    return Err(chunk.damaged("a block is in a function that is not described"));
                }
                self.decoders.add_blocks(blocks);
            }
            _ => {}
        }
        Ok(parsed)
    }
}

/// Parses the content of a chunk that has no units.
fn parse(kind: u32, content: &[u8]) -> Option<Content> {
    match kind {
        FUNCTIONS => all(content, Function::parse).map(Content::Functions),
        BLOCKS => all(content, BlockAccesses::parse).map(Content::Blocks),
        GAP => {
            let nanoseconds = u64::from_le_bytes(content.try_into().ok()?);
            Some(Content::Gap { nanoseconds })
        }
        UNRECORDED => Unrecorded::parse(content).map(Content::Unrecorded),
        REGION => RecordedRegion::parse(content).map(Content::Region),
        END => {
            let (numbers, []) = content.as_chunks::<8>() else { return None };
            let [dropped, cut_threads] = numbers else { return None };
            let [dropped, cut_threads] =
                [dropped, cut_threads].map(|bytes| u64::from_le_bytes(*bytes));
            Some(Content::End { dropped, cut_threads })
        }
        _ => None,
    }
}

/// Parses descriptions up to the end of the bytes. `None` if one of them is not valid.
fn all<T>(mut rest: &[u8], parse: impl Fn(&[u8]) -> Option<(T, &[u8])>) -> Option<Vec<T>> {
    let mut descriptions = Vec::new();
    while !rest.is_empty() {
        let (description, after) = parse(rest)?;
        descriptions.push(description);
        rest = after;
    }
    Some(descriptions)
}
