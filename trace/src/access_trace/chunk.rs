//! Checks and decompresses one chunk of a file.

use hmtt_files::access_trace::{ChunkHeader, FS_BYTES, UNITS};
use zstd::bulk::Decompressor;

use super::column::take;
use super::content::ReadError;

/// A chunk of a file. Its checksum and content are not checked yet.
pub struct Chunk {
    /// Offset of the chunk's header in the file, in bytes.
    pub at: u64,
    /// The parsed header. Its sizes are within the limits of the format.
    pub header: ChunkHeader,
    /// The bytes behind the header, which `header.checksum` covers.
    pub compressed: Vec<u8>,
}

impl Chunk {
    /// The error that this chunk is damaged. `why` completes "the chunk at byte N is damaged: ".
    pub fn damaged(&self, why: &'static str) -> ReadError {
        ReadError::Damaged { at: self.at, why }
    }

    /// Checks and decompresses the content. Returns the base of the segment `fs` and the content.
    /// The base is 0 in chunks without units.
    ///
    /// # Errors
    /// [`ReadError::Damaged`]: the checksum is wrong, the chunk is too short, or zstd does not
    /// return as many bytes as the header states.
    pub fn unpack(&self, decompressor: &mut Decompressor<'_>) -> Result<(u64, Vec<u8>), ReadError> {
        let Chunk { header, compressed, .. } = self;
        if crc32fast::hash(compressed) != header.checksum {
            return Err(self.damaged("its checksum is wrong"));
        }
        let mut frame = &compressed[..];
        let fs = match header.kind {
            UNITS => take(&mut frame, FS_BYTES).and_then(|base| base.try_into().ok()),
            _ => Some([0; FS_BYTES]),
        };
        let fs = fs.map(u64::from_le_bytes).ok_or_else(|| self.damaged("it is too short"))?;
        let content = decompressor.decompress(frame, header.bytes as usize);
        let content = content.ok().filter(|content| content.len() == header.bytes as usize);
        content
            .map(|content| (fs, content))
            .ok_or_else(|| self.damaged("it cannot be decompressed"))
    }
}
