//! A file, compressed or not, to a buffer that holds whole blocks.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Chain, Cursor, IsTerminal, Read, Seek};
use std::path::Path;

use super::error::ReadError;
use super::page_cache::is_cached;
use super::read_ahead::{PIECE_BYTES, ReadAhead, set_direct};

/// Longest block that is believed; Wireshark's limit.
pub(super) const MAX_BLOCK_BYTES: usize = 16 << 20;
/// What is read at once.
const READ_BYTES: usize = 1 << 20;
/// From here on a file is read past the page cache, and is not in it afterwards. What is smaller is read
/// in a sixth of a second either way, and whoever reads it again finds it in the cache.
const LARGE_BYTES: u64 = 64 << 20;
/// How zstd frames begin (RFC 8878, 3.1.1), and all but the low half of a byte of its skippable ones.
const ZSTD: u32 = 0xfd2f_b528;
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;

/// How the bytes of a file are come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// By one reader: past the page cache where that is faster.
    Once,
    /// By several readers, or again and again: through the page cache, which then reads once.
    Shared,
    /// Past the page cache, in pieces of this many bytes, whatever is faster.
    Ahead {
        /// Bytes of a piece; made up to whole pages.
        piece_bytes: usize,
    },
}

/// A file, and how it is read.
pub enum Bytes {
    /// Through the page cache.
    Cached(File),
    /// Past it.
    Ahead(ReadAhead),
    /// In order, from a reader that cannot be rewound; the first bytes, which were read already, come from memory.
    Stream(Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>),
}

impl Bytes {
    fn new(file: File, reading: Reading) -> io::Result<Bytes> {
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

/// Whether to read a file past the page cache: no pipe or device, and not in the cache already.
fn is_ahead_faster(file: &File) -> bool {
    let is_large = |of: &Metadata| of.is_file() && of.len() >= LARGE_BYTES;
    file.metadata().is_ok_and(|of| is_large(&of) && !is_cached(file, of.len()))
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::Cached(file) => file.read(buffer),
            Bytes::Ahead(ahead) => ahead.read(buffer),
            Bytes::Stream(stream) => stream.read(buffer),
        }
    }
}

/// The bytes of a capture file; its first bytes, not its name, say whether it is compressed.
pub enum Source {
    /// As it is.
    Plain(Bytes),
    /// Compressed with zstd.
    Zstd(Box<zstd::Decoder<'static, BufReader<Bytes>>>),
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn open(path: &Path, reading: Reading) -> io::Result<Source> {
        let mut file = File::open(path)?;
        if file.stream_position().is_err() {
            return Source::stream(file);
        }
        let first = first_bytes(&mut file)?;
        file.rewind()?;
        Source::new(&first, Bytes::new(file, reading)?)
    }

    /// Reads what is open already, such as a pipe, from where it is.
    ///
    /// # Errors
    /// It cannot be read, or it is a terminal.
    pub fn stream(file: File) -> io::Result<Source> {
        if file.is_terminal() {
            return Err(io::Error::other("it is a terminal; pipe or redirect a capture to it"));
        }
        Source::from_reader(Box::new(file))
    }

    /// Reads from any reader, from where it is.
    ///
    /// # Errors
    /// The reader's.
    pub fn from_reader(mut reader: Box<dyn Read + Send>) -> io::Result<Source> {
        let first = first_bytes(&mut reader)?;
        Source::new(&first, Bytes::Stream(Cursor::new(first.clone()).chain(reader)))
    }

    fn new(first: &[u8], bytes: Bytes) -> io::Result<Source> {
        let magic = first.try_into().map(u32::from_le_bytes);
        match magic {
            Ok(magic) if magic == ZSTD || magic & !15 == ZSTD_SKIPPABLE => {
                Ok(Source::Zstd(Box::new(zstd::Decoder::new(bytes)?)))
            }
            _ => Ok(Source::Plain(bytes)),
        }
    }
}

/// What says whether a file is compressed, or as much as there is. A pipe may give it in pieces.
fn first_bytes(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    reader.take(size_of::<u32>() as u64).read_to_end(&mut first)?;
    Ok(first)
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(bytes) => bytes.read(buffer),
            Source::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Bytes of a source, read some at a time and taken from the front.
pub(super) struct Buffer<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Byte offset in the source of `start`.
    offset: u64,
    cut: bool,
}

impl<R: Read> Buffer<R> {
    pub fn new(source: R) -> Self {
        Buffer { source, bytes: vec![0; READ_BYTES], start: 0, end: 0, offset: 0, cut: false }
    }

    /// What has been read and not yet taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes `length` of [`Buffer::bytes`]; where they are comes back, for as long as nothing is
    /// filled in.
    pub fn take(&mut self, length: usize) -> usize {
        let begin = self.start;
        self.start += length;
        self.offset += length as u64;
        begin
    }

    /// What was taken last.
    pub fn taken(&self, begin: usize) -> &[u8] {
        &self.bytes[begin..self.start]
    }

    /// Some of what was taken last.
    pub fn bytes_at(&self, begin: usize, length: usize) -> &[u8] {
        &self.bytes[begin..begin + length]
    }

    /// Byte offset in the source of what comes next.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the source ended before it should: a compressed file whose writer was killed.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Reads more; whether there was any comes back.
    pub fn fill(&mut self) -> Result<bool, ReadError> {
        // A long block comes in many pieces: it moves once, not with each of them.
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
