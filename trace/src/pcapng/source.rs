//! Opens a capture file, compressed or not. Buffers it so that each block is contiguous in memory.

use std::fs::{File, Metadata};
use std::io::{self, Chain, Cursor, IsTerminal, Read, Seek};
use std::path::Path;

use super::block::SECTION_HEADER;
use super::classic::ClassicPcap;
use super::error::ReadError;
use super::page_cache::is_cached;
use super::read_ahead::{PIECE_BYTES, ReadAhead, set_direct};
use crate::compression::{Compression, Decompressed};

/// Longest accepted block in bytes, which is Wireshark's limit.
pub(super) const MAX_BLOCK_BYTES: usize = 16 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Size in bytes from which a file is read with direct reads, so that it does not fill the page
/// cache. A smaller file is read in a sixth of a second either way. If it is read through the
/// cache, the next reader finds it there.
const LARGE_BYTES: u64 = 64 << 20;
/// Number of first bytes by which compression is recognised: the length of a pcapng block's type.
const FIRST_BYTES: usize = size_of::<u32>();

/// Whether a file can be a capture: its first 4 bytes are the first bytes of a capture or of a
/// compressed file.
pub fn is_capture(first: [u8; FIRST_BYTES]) -> bool {
    is_plain_capture(&first) || Compression::of(&first).is_some()
}

/// Whether decompressed bytes are the begin of a capture.
pub fn is_plain_capture(begin: &[u8]) -> bool {
    begin.starts_with(&SECTION_HEADER.to_be_bytes()) || ClassicPcap::new(begin).is_some()
}

/// The way of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// One reader reads the file once: with direct reads if they are faster.
    Once,
    /// Several readers read the file, or one reader reads it several times: through the page cache,
    /// so that the disk is read once.
    Shared,
    /// One reader reads the file, always with direct reads.
    Ahead {
        /// Bytes of a piece, which are rounded up to whole pages.
        piece_bytes: usize,
    },
}

/// The bytes of a file before decompression.
pub enum Bytes<R> {
    /// Bytes of a file that is read through the page cache.
    Cached(File),
    /// Bytes of a file that a thread reads with direct reads.
    Ahead(ReadAhead),
    /// Bytes of a reader that cannot be rewound. Its first bytes were already read and come first.
    Stream(Chain<Cursor<Vec<u8>>, R>),
}

impl<R> Bytes<R> {
    fn new(file: File, reading: Reading) -> io::Result<Bytes<R>> {
        let piece_bytes = match reading {
            Reading::Ahead { piece_bytes } => piece_bytes,
            Reading::Once if is_ahead_faster(&file) && set_direct(&file, true).is_ok() => {
                PIECE_BYTES
            }
            _ => return Ok(Bytes::Cached(file)),
        };
        Ok(Bytes::Ahead(ReadAhead::start(file, piece_bytes)?))
    }
}

/// Whether direct reads of a file are faster. This is so for a large file that is no pipe or
/// device, and is not already in the page cache.
fn is_ahead_faster(file: &File) -> bool {
    let is_large = |metadata: &Metadata| metadata.is_file() && metadata.len() >= LARGE_BYTES;
    file.metadata().is_ok_and(|metadata| is_large(&metadata) && !is_cached(file, metadata.len()))
}

impl<R: Read> Read for Bytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::Cached(file) => file.read(buffer),
            Bytes::Ahead(ahead) => ahead.read(buffer),
            Bytes::Stream(stream) => stream.read(buffer),
        }
    }
}

/// A reader of the decompressed bytes of a capture, from a file or from any reader. A compressed
/// capture is recognised by its first bytes, not by its name.
pub type Source<R = File> = Decompressed<Bytes<R>>;

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path, reading: Reading) -> io::Result<Source> {
        let mut file = File::open(path)?;
        if file.stream_position().is_err() {
            return Source::stream(file);
        }
        let first = first_bytes(&mut file)?;
        file.rewind()?;
        Source::new(Compression::of(&first), Bytes::new(file, reading)?)
    }

    /// Reads a file that is open already, such as a pipe, from its current position.
    ///
    /// # Errors
    /// The file cannot be read, or it is a terminal.
    pub fn stream(file: File) -> io::Result<Source> {
        if file.is_terminal() {
            return Err(io::Error::other("it is a terminal; pipe or redirect a capture to it"));
        }
        Source::from_reader(file)
    }

    /// Continues to read an open file. `begin`: its first bytes, which were already read.
    ///
    /// # Errors
    /// The errors of [`Decompressed::new`].
    pub fn stream_after(begin: Vec<u8>, file: File) -> io::Result<Source> {
        let compression = Compression::of(&begin);
        Source::new(compression, Bytes::Stream(Cursor::new(begin).chain(file)))
    }
}

impl<R: Read> Source<R> {
    /// Reads from any reader.
    ///
    /// # Errors
    /// The reader fails.
    pub fn from_reader(mut reader: R) -> io::Result<Source<R>> {
        let first = first_bytes(&mut reader)?;
        let compression = Compression::of(&first);
        Source::new(compression, Bytes::Stream(Cursor::new(first).chain(reader)))
    }
}

/// Reads the first 4 bytes; fewer if the file is shorter. Reads repeatedly, because a pipe may
/// deliver the bytes in pieces.
fn first_bytes(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    reader.take(FIRST_BYTES as u64).read_to_end(&mut first)?;
    Ok(first)
}

/// A buffer of a source's bytes. [`Buffer::fill`] appends bytes, and [`Buffer::take`] removes them
/// from the front.
pub(super) struct Buffer<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Byte offset in the source of the byte at `start`.
    offset: u64,
    cut: bool,
}

impl<R: Read> Buffer<R> {
    pub fn new(source: R) -> Self {
        Buffer { source, bytes: vec![0; READ_BYTES], start: 0, end: 0, offset: 0, cut: false }
    }

    /// The bytes that were read and not yet taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes the first `length` bytes of [`Buffer::bytes`]. Returns their index in the buffer,
    /// which is valid until the next [`Buffer::fill`].
    pub fn take(&mut self, length: usize) -> usize {
        let begin = self.start;
        self.start += length;
        self.offset += length as u64;
        begin
    }

    /// The bytes from index `begin` to the end of the last taken bytes. `begin`: the index that
    /// [`Buffer::take`] has returned.
    pub fn taken(&self, begin: usize) -> &[u8] {
        &self.bytes[begin..self.start]
    }

    /// `length` bytes at index `begin`, which must be among the last taken bytes.
    pub fn bytes_at(&self, begin: usize, length: usize) -> &[u8] {
        &self.bytes[begin..begin + length]
    }

    /// Byte offset in the source of the next byte that will be taken.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the source ended within a compressed frame, for example because its writer was
    /// killed.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Reads more bytes. Returns `false` at the end of the source.
    ///
    /// # Errors
    /// [`ReadError::Read`]: the source cannot be read.
    pub fn fill(&mut self) -> Result<bool, ReadError> {
        // A long block needs several calls. Only the first call moves its bytes to the front.
        if self.start != 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            self.bytes.resize((self.bytes.len() * 2).min(MAX_BLOCK_BYTES + READ_BYTES), 0);
        }
        loop {
            match self.source.read(&mut self.bytes[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read != 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.cut = true;
                    return Ok(false);
                }
                Err(source) => return Err(ReadError::Read { offset: self.offset, source }),
            }
        }
    }
}
