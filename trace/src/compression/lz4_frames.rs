//! Decompresses the LZ4 frames of a file, one after another.
//!
//! The library's decoder returns no bytes in two cases: at the end of a frame, and at the end of a
//! file that ends between two blocks of a frame. Here the second case is an error of the kind
//! [`io::ErrorKind::UnexpectedEof`], as for the other compressions. Each frame gets a new decoder,
//! with memory for two blocks (at most 4 MiB each). Skippable frames and dictionaries are errors.

use std::io::{self, BufRead, Read};

use lz4_flex::frame::FrameDecoder;

/// A reader that notes whether it was read beyond its end.
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

/// A reader of the decompressed bytes of all frames.
pub struct Lz4Frames<R: Read> {
    /// The decoder of the current frame. `None` only while it is replaced.
    decoder: Option<FrameDecoder<EndWatch<R>>>,
}

impl<R: BufRead> Lz4Frames<R> {
    /// Creates a reader. `reader`: the compressed bytes.
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
