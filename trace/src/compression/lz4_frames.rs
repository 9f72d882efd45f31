//! Decompresses the LZ4 frames of a file, one after the other.
//!
//! The library's decoder returns no bytes at the end of a frame, and also where the file ends
//! between two blocks of one. Here a file that ends within a frame is an error of the kind
//! [`io::ErrorKind::UnexpectedEof`], as for the other compressions. Each frame has a decoder of its
//! own, with memory for two blocks (at most 4 MiB each). Skippable frames and dictionaries are
//! errors.

use std::io::{self, BufRead, Read};

use lz4_flex::frame::FrameDecoder;

/// A reader that remembers whether it was read beyond its end.
struct EndWatch<R> {
    reader: R,
    is_beyond: bool,
}

impl<R: Read> Read for EndWatch<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.is_beyond |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

/// A reader of decompressed bytes.
pub struct Lz4Frames<R: Read> {
    /// `None` only while a decoder is replaced.
    decoder: Option<FrameDecoder<EndWatch<R>>>,
}

impl<R: BufRead> Lz4Frames<R> {
    /// A reader of what `reader` has compressed.
    pub fn new(reader: R) -> Self {
        let decoder = FrameDecoder::new(EndWatch { reader, is_beyond: false });
        Lz4Frames { decoder: Some(decoder) }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(decoder) = &mut self.decoder {
            match decoder.read(buffer)? {
                0 if decoder.get_ref().is_beyond => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                0 => {}
                read => return Ok(read),
            }
            if decoder.get_mut().reader.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.decoder =
                self.decoder.take().map(|decoder| FrameDecoder::new(decoder.into_inner()));
        }
        Ok(0)
    }
}
