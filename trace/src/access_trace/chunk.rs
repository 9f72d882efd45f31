//! A chunk as it is in a file.

use hmtt_format::access_trace::{ChunkHeader, FS_BYTES, UNITS};
use zstd::bulk::Decompressor;

use super::column::take;
use super::content::ReadError;

/// A chunk that was read and not checked.
pub struct Chunk {
    /// Its offset in the file.
    pub at: u64,
    /// Its header.
    pub header: ChunkHeader,
    /// The bytes behind the header.
    pub compressed: Vec<u8>,
}

impl Chunk {
    /// The error that the chunk is damaged.
    pub fn damaged(&self, why: &'static str) -> ReadError {
        ReadError::Damaged { at: self.at, why }
    }

    /// Checks and decompresses the content. Returns it behind the base of the segment `fs`, which
    /// is 0 in chunks without units.
    ///
    /// # Errors
    /// The chunk is damaged.
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
