//! Encodes and decodes tag logs (`docs/tag-log.md`), and decodes the events that the stubs of `hmtt
//! tag` write to a process's memory.
//!
//! A log is a [`Header`] followed by [`Chunk`]s. It is only appended to, and a truncated log is
//! read up to its last whole chunk. Invariant: every chunk has a CRC-32 and is decoded without any
//! other chunk.
//!
//! To write a log, begin with [`Header::encode`]. [`TagEvent::from_timed`] or
//! [`TagEvent::from_ordered`] decodes each slot of a thread's buffer, an [`EventEncoder`] writes a
//! chunk of events into a buffer of the caller, and [`Chunk::encode`] writes all other chunks.
//!
//! ```
//! use hmtt_files::tag_log::{Chunk, Content, EventEncoder, Full, FunctionId, TagEvent};
//! let mut buffer = [0; 4096];
//! let mut encoder = EventEncoder::new(&mut buffer, 17, true)?;
//! // If the chunk is full, finish it and begin another one.
//! encoder.push(TagEvent { tsc: 1000, sp: 0x7ff0, number: FunctionId(3), is_exit: false })?;
//! let bytes = encoder.finish(); // append buffer[..bytes] to the log
//! let (chunk, length) = Chunk::decode(&buffer[..bytes]).unwrap().expect("it is whole");
//! let Content::Events(events) = chunk.content else { panic!() };
//! assert_eq!((chunk.thread, length, events.count), (17, bytes, 1));
//! assert_eq!(events.decode(true).next().unwrap().unwrap().number, FunctionId(3));
//! # Ok::<(), Full>(())
//! ```
//!
//! To read a log, call [`Header::decode`], then [`Chunk::decode`] for each chunk. No function
//! allocates, and no input causes a panic.

mod chunk;
mod distance;
mod events;
mod frames;

pub use chunk::{
    CHUNK_HEADER_BYTES, Chunk, ClockPair, Content, Ending, Events, LossReason, MAX_PAYLOAD_BYTES,
    Mark,
};
pub use events::{EVENT_BYTES_AT_MOST, EventDecoder, EventEncoder};

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::crc32;

/// Version of the log's format. A change that a reader must know increments it.
pub const VERSION: u16 = 1;
/// First bytes of a log.
pub const MAGIC: [u8; 8] = *b"hmtt-tag";
/// Size of the [`Header`] in bytes.
pub const HEADER_BYTES: usize = 48;
const FLAG_TIMED: u16 = 1;
/// Offset in the header of the CRC-32 of the bytes before it.
const CRC_AT: usize = 44;

/// Size of an event with its time in a thread's buffer, in bytes.
pub const TIMED_SLOT_BYTES: usize = 16;
/// Size of an event without a time in a thread's buffer, in bytes.
pub const ORDERED_SLOT_BYTES: usize = 8;
/// Largest number of a function or block, since the words of its entry and exit have 32 bits.
pub const MAX_NUMBER: u32 = (u32::MAX - 2) / 2;

/// Number of a function or basic block in events and in counts. Functions and blocks share one
/// range of numbers, and a number never changes its meaning in a process. The number is not the
/// place of a function in a list.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FunctionId(pub u32);

impl core::fmt::Display for FunctionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl FunctionId {
    /// The number that is greater by `after`. Blocks get the numbers after the number of their
    /// function in this way.
    pub const fn offset(self, after: u32) -> Self {
        FunctionId(self.0.wrapping_add(after))
    }

    /// Index of the counter of this number in a list of counters.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The reason why a log cannot be read, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The file is no log: it begins with other bytes, or is shorter than a header.
    NotALog,
    /// The version of the format is not supported.
    Version(u16),
    /// The header is damaged.
    Header,
    /// A chunk is longer than the longest one that is written.
    Length(u32),
    /// A chunk is damaged: its CRC-32 is wrong.
    Checksum,
    /// The content of a chunk is invalid.
    Content,
    /// An event is invalid.
    Event,
}

impl core::fmt::Display for LogError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LogError::NotALog => f.write_str("not a tag log"),
            LogError::Version(version) => {
                write!(f, "a tag log of version {version}, not {VERSION}")
            }
            LogError::Header => f.write_str("the log's header is damaged"),
            LogError::Length(bytes) => write!(f, "a chunk of {bytes} bytes, longer than any"),
            LogError::Checksum => f.write_str("a damaged chunk"),
            LogError::Content => f.write_str("a chunk with invalid content"),
            LogError::Event => f.write_str("an invalid event"),
        }
    }
}

impl core::error::Error for LogError {}

/// A buffer is too small for a chunk or an event. Nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the buffer is too small for a chunk")
    }
}

impl core::error::Error for Full {}

/// The start of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether events have times.
    pub is_timed: bool,
    /// Process id.
    pub pid: u32,
    /// Frequency of the time stamp counter in Hz; 0 if it is not known.
    pub tsc_hz: u64,
    /// Time at which the log was created, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Identifies the log; the map that names its functions has the same bytes.
    pub map_id: [u8; 8],
}

impl Header {
    /// Encodes the header as the first bytes of a file.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(FLAG_TIMED * u16::from(self.is_timed)).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.pid.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.tsc_hz.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.start_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.map_id);
        let crc = crc32(&[&bytes[..CRC_AT]]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the first bytes of a file.
    ///
    /// # Errors
    /// [`LogError::NotALog`], [`LogError::Version`] or [`LogError::Header`].
    pub fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(LogError::NotALog);
        };
        if bytes[..8] != MAGIC {
            return Err(LogError::NotALog);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(LogError::Version(version));
        }
        if u32_at(bytes, CRC_AT) != Some(crc32(&[&bytes[..CRC_AT]])) {
            return Err(LogError::Header);
        }
        let (Some(pid), Some(tsc_hz), Some(start_ns)) =
            (u32_at(bytes, 12), u64_at(bytes, 16), u64_at(bytes, 24))
        else {
            return Err(LogError::Header);
        };
        let is_timed = u16::from_le_bytes([bytes[10], bytes[11]]) & FLAG_TIMED != 0;
        let map_id = u64_at(bytes, 32).unwrap_or_default().to_le_bytes();
        Ok(Header { is_timed, pid, tsc_hz, start_ns, map_id })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// An event: a thread entered or left a function, or entered a block.
///
/// The slot that a stub writes is little-endian:
///
/// ```text
/// timed    tsc 64 | sp 32 | word 32
/// ordered           sp 32 | word 32      word = 1 + 2 * number + (0 entry | 1 exit); 0: not yet written
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagEvent {
    /// Time stamp counter; 0 in logs without times.
    pub tsc: u64,
    /// Low 32 bits of the stack pointer. At the entry and at the exit the stack pointer points at
    /// the function's return address, so both events have the same value.
    pub sp: u32,
    /// Number of the function or block.
    pub number: FunctionId,
    /// Whether the thread left the function.
    pub is_exit: bool,
}

impl TagEvent {
    /// The word of the slot. Stubs write it after the rest of the slot.
    pub const fn word(&self) -> u32 {
        // Wraps, because a number above MAX_NUMBER must not cause a panic.
        self.number.0.wrapping_mul(2).wrapping_add(1 + self.is_exit as u32)
    }

    /// Decodes a slot with a time; `None` if it has not been written.
    pub fn from_timed(slot: &[u8; TIMED_SLOT_BYTES]) -> Option<Self> {
        let [tsc, rest] = slot.as_chunks::<8>().0 else { return None };
        Some(TagEvent { tsc: u64::from_le_bytes(*tsc), ..Self::from_ordered(rest)? })
    }

    /// Decodes a slot without a time; `None` if it has not been written.
    pub fn from_ordered(slot: &[u8; ORDERED_SLOT_BYTES]) -> Option<Self> {
        let [sp, word] = slot.as_chunks::<4>().0 else { return None };
        let event = u32::from_le_bytes(*word).checked_sub(1)?;
        let sp = u32::from_le_bytes(*sp);
        Some(TagEvent { tsc: 0, sp, number: FunctionId(event / 2), is_exit: event % 2 != 0 })
    }
}
