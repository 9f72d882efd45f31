//! Reads the chunks of a tag log, up to its end or the place where it was cut.

use std::io::{self, Read};

use hmtt_files::tag_log::{
    CHUNK_HEADER_BYTES, Chunk, HEADER_BYTES, Header, LogError, MAX_PAYLOAD_BYTES,
};

/// Size of the read buffer, in bytes. The longest chunk fits in it.
const BUFFER_BYTES: usize = 2 * (MAX_PAYLOAD_BYTES + CHUNK_HEADER_BYTES);

/// An error that ends the reading of a log.
#[derive(Debug, thiserror::Error)]
pub enum TagLogError {
    /// The file could not be read.
    #[error("offset {offset}: cannot read")]
    Read {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The error of the input.
        #[source]
        source: io::Error,
    },
    /// The content is not a valid log.
    #[error("offset {offset}")]
    Log {
        /// Offset of the chunk in the file, in bytes.
        offset: u64,
        /// What is wrong with the header or the chunk.
        #[source]
        source: LogError,
    },
}

/// A reader of a log, from its start to its end.
///
/// ```
/// # fn main() -> Result<(), hmtt::tags::log_reader::TagLogError> {
/// use hmtt::tags::log_reader::LogReader;
/// use hmtt_files::tag_log::Header;
///
/// let log = Header { pid: 4711, is_timed: true, ..Header::default() }.encode();
/// let mut reader = LogReader::new(&log[..])?;
/// assert_eq!(reader.header().pid, 4711);
/// assert!(reader.next_chunk()?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    header: Header,
    buffer: Vec<u8>,
    /// Part of the buffer that was read from the file and not yet returned.
    filled: std::ops::Range<usize>,
    /// File offset of the first byte that was not yet returned.
    offset: u64,
    is_at_end: bool,
}

impl<R: Read> LogReader<R> {
    /// Creates a reader and reads the log's header.
    ///
    /// # Errors
    /// [`TagLogError`]: the file cannot be read, or does not begin with a valid header.
    pub fn new(source: R) -> Result<Self, TagLogError> {
        let mut reader = LogReader {
            source,
            header: Header::default(),
            buffer: vec![0; BUFFER_BYTES],
            filled: 0..0,
            offset: 0,
            is_at_end: false,
        };
        while reader.filled.len() < HEADER_BYTES && !reader.is_at_end {
            reader.fill()?;
        }
        reader.header = Header::decode(&reader.buffer[reader.filled.clone()])
            .map_err(|source| TagLogError::Log { offset: 0, source })?;
        (reader.filled.start, reader.offset) = (HEADER_BYTES, HEADER_BYTES as u64);
        Ok(reader)
    }

    /// The log's header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Offset of the next chunk, in bytes.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next chunk. `None` at the end of the file, also if it ends within a chunk.
    ///
    /// # Errors
    /// [`TagLogError`]: the file cannot be read, or the chunk is not valid. Later calls fail again,
    /// because the reader does not skip a chunk that is not valid.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk<'_>>, TagLogError> {
        let offset = self.offset;
        let error = |source| TagLogError::Log { offset, source };
        let length = loop {
            let filled = &self.buffer[self.filled.clone()];
            match Chunk::length(filled).map_err(error)? {
                Some(length) if length <= filled.len() => break length,
                _ if self.is_at_end => return Ok(None),
                _ => self.fill()?,
            }
        };
        let begin = self.filled.start;
        let chunk = Chunk::decode(&self.buffer[begin..begin + length]).map_err(error)?;
        self.filled.start += length;
        self.offset += length as u64;
        Ok(chunk.map(|(chunk, _)| chunk))
    }

    /// Offset of an incomplete last chunk, once `next_chunk` has returned `None`.
    pub fn cut_at(&self) -> Option<u64> {
        (self.is_at_end && !self.filled.is_empty()).then_some(self.offset)
    }

    /// Reads more bytes to the end of the filled part of the buffer, after moving this part to the
    /// start.
    fn fill(&mut self) -> Result<(), TagLogError> {
        if self.filled.start != 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let offset = self.offset + self.filled.len() as u64;
        match self.source.read(&mut self.buffer[self.filled.end..]) {
            Ok(0) => self.is_at_end = true,
            Ok(bytes) => self.filled.end += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(TagLogError::Read { offset, source }),
        }
        Ok(())
    }
}
