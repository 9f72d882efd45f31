//! Rejects compressed pages that expand to more bytes than their header states.
//!
//! The library decompresses zstd, Snappy and raw LZ4 into as many bytes as the header states. But
//! it decompresses gzip, Brotli and LZ4 frames to their end: a Brotli page of a few kilobytes can
//! expand to gigabytes. So gzip and Brotli pages are decompressed here first, up to the stated size
//! and without being stored. LZ4 frames, which only old versions of the library wrote, are
//! rejected.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use ::parquet::basic::Compression;
use ::parquet::file::metadata::RowGroupMetaData;

use crate::table::TableError;

/// First bytes of an LZ4 frame, in the current and in the legacy format.
const LZ4_FRAMES: [[u8; 4]; 2] = [0x184d_2204_u32.to_le_bytes(), 0x184c_2102_u32.to_le_bytes()];
/// Bytes that are read or decompressed at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// A codec whose pages the library decompresses to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamedCodec {
    Gzip,
    Brotli,
    Lz4,
}

impl StreamedCodec {
    /// The codec, if the library decompresses its pages to their end.
    fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::GZIP(_) => Some(StreamedCodec::Gzip),
            Compression::BROTLI(_) => Some(StreamedCodec::Brotli),
            Compression::LZ4 => Some(StreamedCodec::Lz4),
            _ => None,
        }
    }
}

/// The column chunks of a file, if at least one has a [`StreamedCodec`]. Otherwise empty.
#[derive(Debug, Default)]
pub(super) struct StreamedChunks {
    /// Start, end and codec of each chunk, ascending. Start and end are offsets in the file. Chunks
    /// do not overlap.
    chunks: Vec<(u64, u64, Option<StreamedCodec>)>,
}

impl StreamedChunks {
    /// Collects the chunks of all row groups. They must be within the file.
    ///
    /// # Errors
    /// [`TableError::Schema`]: chunks overlap, so that a page could have two codecs.
    pub fn of(groups: &[RowGroupMetaData]) -> Result<Self, TableError> {
        let columns = groups.iter().flat_map(RowGroupMetaData::columns);
        let mut chunks: Vec<_> = columns
            .map(|column| {
                let (start, length) = column.byte_range();
                (start, start + length, StreamedCodec::of(column.compression()))
            })
            .collect();
        if chunks.iter().all(|(_, _, codec)| codec.is_none()) {
            return Ok(StreamedChunks::default());
        }
        chunks.sort_unstable_by_key(|(start, end, _)| (*start, *end));
        if let Some(pair) = chunks.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            return Err(TableError::Schema(format!(
                "two columns overlap at offset {}: the file is damaged",
                pair[1].0
            )));
        }
        Ok(StreamedChunks { chunks })
    }

    /// The codec of the page at an offset, if the library decompresses the page to its end.
    pub fn codec(&self, offset: u64) -> Option<StreamedCodec> {
        let after = self.chunks.partition_point(|(start, _, _)| *start <= offset);
        let (_, end, codec) = self.chunks.get(after.checked_sub(1)?)?;
        codec.filter(|_| offset < *end)
    }
}

/// A compressed page that the library would decompress to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamedPage {
    pub codec: StreamedCodec,
    /// Offset of the compressed bytes in the file.
    pub first: u64,
    /// Number of compressed bytes.
    pub stored_bytes: u64,
    /// Number of decompressed bytes that the header states.
    pub stated_bytes: u64,
}

impl StreamedPage {
    /// Checks that the page does not become longer than stated. Bytes that are not valid in the
    /// codec pass, because the library rejects them.
    pub fn check(self, file: &File) -> Result<(), String> {
        let source = FileRange { file, next: self.first, rest: self.stored_bytes };
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        let is_longer = match self.codec {
            StreamedCodec::Gzip => self.is_longer(flate2::bufread::MultiGzDecoder::new(source)),
            StreamedCodec::Brotli => {
                self.is_longer(brotli::Decompressor::new(source, BUFFER_BYTES))
            }
            StreamedCodec::Lz4 => {
                let mut magic = [0; 4];
                let is_read = file.read_exact_at(&mut magic, self.first).is_ok();
                if is_read && LZ4_FRAMES.contains(&magic) {
                    return Err("is an LZ4 frame; write the table with zstd or Snappy".into());
                }
                false
            }
        };
        if is_longer {
            return Err(format!(
                "becomes longer than the {} bytes that its header states: the file is damaged",
                self.stated_bytes
            ));
        }
        Ok(())
    }

    /// Whether the page becomes longer than stated. Decompresses at most one byte more than stated.
    fn is_longer(self, decompressed: impl Read) -> bool {
        let mut limited = decompressed.take(self.stated_bytes + 1);
        io::copy(&mut limited, &mut io::sink()).is_ok_and(|bytes| bytes > self.stated_bytes)
    }
}

/// Reads a range of a file, without moving the cursor of the file.
struct FileRange<'a> {
    file: &'a File,
    next: u64,
    rest: u64,
}

impl Read for FileRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.rest).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.file.read_at(&mut buffer[..most], self.next)?;
        self.next += length as u64;
        self.rest -= length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lz4_frames_are_rejected_and_blocks_are_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[&[0, 0], &LZ4_FRAMES[0][..], &[0; 8]].concat()).unwrap();
        let page = |first| StreamedPage {
            codec: StreamedCodec::Lz4,
            first,
            stored_bytes: 8,
            stated_bytes: 8,
        };
        let error = page(2).check(&file).unwrap_err();
        assert!(error.starts_with("is an LZ4 frame; write the table with"), "{error}");
        assert_eq!(page(0).check(&file), Ok(()));
    }
}
