//! A file to the chunks of a tag log, up to where it was cut.

use std::io::{self, Read};

use hmtt_format::tag_log::{
    CHUNK_HEADER_BYTES, Chunk, HEADER_BYTES, Header, LogError, MAX_PAYLOAD_BYTES,
};

/// A chunk fits, and reads are long.
const BUFFER_BYTES: usize = 2 * (MAX_PAYLOAD_BYTES + CHUNK_HEADER_BYTES);

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum TagLogError {
    /// The file.
    #[error("offset {offset}: cannot read")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What it holds.
    #[error("offset {offset}")]
    Log {
        /// Where the chunk begins.
        offset: u64,
        /// Why.
        #[source]
        source: LogError,
    },
}

/// Reads a log from its start to its end.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    header: Header,
    buffer: Vec<u8>,
    /// What of the buffer has been read and not been taken.
    filled: std::ops::Range<usize>,
    /// Of the first byte that has not been taken.
    offset: u64,
    is_at_end: bool,
}

impl<R: Read> LogReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TagLogError`].
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

    /// How the log begins.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Where the next chunk begins.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next chunk; none at the end, or where the file was cut.
    ///
    /// # Errors
    /// [`TagLogError`]; it is the same each time.
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

    /// Where the last, cut chunk begins, once there are no more.
    pub fn cut_at(&self) -> Option<u64> {
        (self.is_at_end && !self.filled.is_empty()).then_some(self.offset)
    }

    /// Reads more behind what there is.
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
