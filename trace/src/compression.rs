//! Decompresses files that are compressed with zstd, gzip or LZ4. The first bytes of a file show
//! its compression.
//!
//! ```text
//! reader -> first bytes -> Compression -> Decompressed -> bytes
//!                 '------> Begin: whether it is compressed, and how its content begins
//! ```
//!
//! Invariant: the use of memory does not grow with the input. Several compressed pieces in one file
//! are read as one content. xz is recognised and refused.

#[cfg(feature = "compressed-captures")]
mod lz4_frames;

use std::fmt;
use std::io::{self, BufReader, Chain, Cursor, Read};

#[cfg(feature = "compressed-captures")]
use flate2::bufread::MultiGzDecoder;

#[cfg(feature = "compressed-captures")]
use lz4_frames::Lz4Frames;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Number of first bytes that are needed to recognise a compression.
const MAGIC_BYTES: usize = 6;
/// Magic number of zstd frames (RFC 8878, 3.1.1).
const ZSTD: u32 = 0xfd2f_b528;
/// Magic number of skippable zstd frames, whose low 4 bits vary (RFC 8878, 3.1.2).
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;
/// First bytes of a gzip member with its only method of compression (RFC 1952, 2.3.1).
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// Magic number of an LZ4 frame.
const LZ4: u32 = 0x184d_2204;
/// First bytes of a stream of xz.
const XZ: [u8; MAGIC_BYTES] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Frames of zstd.
    Zstd,
    /// Members of gzip.
    Gzip,
    /// Frames of LZ4. Its legacy format is not recognised.
    Lz4,
    /// Streams of xz, which are refused.
    Xz,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::Zstd => "zstd",
            Compression::Gzip => "gzip",
            Compression::Lz4 => "lz4",
            Compression::Xz => "xz",
        })
    }
}

impl Compression {
    /// Recognises the compression of a file by its first bytes; its name does not matter. Returns
    /// `None` if the file is not compressed.
    pub fn of(first: &[u8]) -> Option<Compression> {
        if first.starts_with(&GZIP) {
            return Some(Compression::Gzip);
        }
        if first.starts_with(&XZ) {
            return Some(Compression::Xz);
        }
        match first.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
            Some(ZSTD) => Some(Compression::Zstd),
            Some(magic) if magic & !15 == ZSTD_SKIPPABLE => Some(Compression::Zstd),
            Some(LZ4) => Some(Compression::Lz4),
            _ => None,
        }
    }
}

/// A reader of the decompressed bytes of another reader.
pub enum Decompressed<R: Read> {
    /// The bytes are not compressed.
    Plain(R),
    /// The bytes are compressed with zstd.
    Zstd(Box<zstd::Decoder<'static, BufReader<R>>>),
    /// The bytes are compressed with gzip.
    #[cfg(feature = "compressed-captures")]
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
    /// The bytes are compressed with LZ4, in frames.
    #[cfg(feature = "compressed-captures")]
    Lz4(Box<Lz4Frames<BufReader<R>>>),
}

impl<R: Read> Decompressed<R> {
    /// Creates a reader of decompressed bytes. `compression`: the compression that the first bytes
    /// of `reader` show.
    ///
    /// # Errors
    /// The bytes are compressed with xz, or the cargo feature for their compression is missing.
    pub fn new(compression: Option<Compression>, reader: R) -> io::Result<Decompressed<R>> {
        #[cfg(feature = "compressed-captures")]
        let buffered = |reader| BufReader::with_capacity(READ_BYTES, reader);
        match compression {
            None => Ok(Decompressed::Plain(reader)),
            Some(Compression::Zstd) => {
                Ok(Decompressed::Zstd(Box::new(zstd::Decoder::new(reader)?)))
            }
            #[cfg(feature = "compressed-captures")]
            Some(Compression::Gzip) => {
                Ok(Decompressed::Gzip(Box::new(MultiGzDecoder::new(buffered(reader)))))
            }
            #[cfg(feature = "compressed-captures")]
            Some(Compression::Lz4) => {
                Ok(Decompressed::Lz4(Box::new(Lz4Frames::new(buffered(reader)))))
            }
            Some(Compression::Xz) => Err(io::Error::other(
                "it is compressed with xz, which is not read; decompress it: xz -dc FILE | hmtt ... -",
            )),
            #[cfg(not(feature = "compressed-captures"))]
            Some(other) => Err(io::Error::other(format!(
                "it is compressed with {other}, which needs the cargo feature `compressed-captures`"
            ))),
        }
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Decompressed::Plain(reader) => reader.read(buffer),
            Decompressed::Zstd(decoder) => decoder.read(buffer),
            #[cfg(feature = "compressed-captures")]
            Decompressed::Gzip(decoder) => decoder.read(buffer),
            #[cfg(feature = "compressed-captures")]
            Decompressed::Lz4(decoder) => decoder.read(buffer),
        }
    }
}

/// The begin of a file, decompressed, with all bytes that were read for it.
///
/// ```
/// use std::io::Read;
///
/// use hmtt::compression::{Begin, Compression};
///
/// let file = zstd::encode_all(&b"LD 0x40\nST 0x80\n"[..], 1)?;
/// let mut reader = &file[..];
/// let begin = Begin::read(&mut reader, 7)?;
/// assert_eq!((begin.compression, &begin.content[..]), (Some(Compression::Zstd), &b"LD 0x40"[..]));
/// // The bytes that were read for the begin are not lost.
/// let mut text = String::new();
/// begin.decompress(reader)?.read_to_string(&mut text)?;
/// assert_eq!(text, "LD 0x40\nST 0x80\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Begin {
    /// Compression of the file; `None` if it is not compressed.
    pub compression: Option<Compression>,
    /// First bytes of the decompressed content. There are fewer than requested only if the content
    /// is shorter or damaged.
    pub content: Vec<u8>,
    /// All bytes that were read from the file, not decompressed. This is more than needed for
    /// `content`, because the decompression reads ahead.
    pub raw: Vec<u8>,
}

/// A reader that also appends everything that is read to `raw`.
struct Recorded<'r, R> {
    reader: &'r mut R,
    raw: &'r mut Vec<u8>,
}

impl<R: Read> Read for Recorded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.raw.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

impl Begin {
    /// Reads the begin of a file. `bytes`: requested number of decompressed bytes.
    ///
    /// # Errors
    /// The reader fails. Damage in compressed data is no error here: the content ends before the
    /// damage.
    pub fn read(reader: &mut impl Read, bytes: usize) -> io::Result<Begin> {
        let mut raw = Vec::new();
        reader.by_ref().take(bytes.max(MAGIC_BYTES) as u64).read_to_end(&mut raw)?;
        let compression = Compression::of(&raw);
        if compression.is_none() || compression == Some(Compression::Xz) {
            let content = raw[..raw.len().min(bytes)].to_vec();
            return Ok(Begin { compression, content, raw });
        }
        let (read, mut more, mut content) = (raw.clone(), Vec::new(), Vec::new());
        let rest = Recorded { reader, raw: &mut more };
        let decoder = Decompressed::new(compression, Cursor::new(read).chain(rest))?;
        // Damage is ignored here. It is reported when the whole file is read, after the bytes
        // before the damage.
        let _ = decoder.take(bytes as u64).read_to_end(&mut content);
        raw.append(&mut more);
        Ok(Begin { compression, content, raw })
    }

    /// A reader of the whole decompressed file. `rest`: the reader from which the begin was read.
    ///
    /// # Errors
    /// The errors of [`Decompressed::new`].
    pub fn decompress<R: Read>(
        self,
        rest: R,
    ) -> io::Result<Decompressed<Chain<Cursor<Vec<u8>>, R>>> {
        Decompressed::new(self.compression, Cursor::new(self.raw).chain(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_begin_of_damaged_data_is_what_precedes_the_damage() {
        let mut file = zstd::encode_all(&[7; 100][..], 1).unwrap();
        file.truncate(file.len() - 2);
        file.extend([0xff; 9]);
        let begin = Begin::read(&mut &file[..], 4096).unwrap();
        assert_eq!((begin.compression, begin.raw.len()), (Some(Compression::Zstd), file.len()));
        assert!(begin.content.len() <= 100);
    }

    #[test]
    fn xz_is_recognised_and_refused() {
        let file = b"\xfd7zXZ\0rest";
        let begin = Begin::read(&mut &file[..], 4096).unwrap();
        assert_eq!((begin.compression, &begin.raw[..]), (Some(Compression::Xz), &file[..]));
        let error = begin.decompress(io::empty()).err().unwrap().to_string();
        assert!(error.contains("xz -dc"), "{error}");
    }
}
