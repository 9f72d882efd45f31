//! What the stubs of `hmtt tag` leave in a process's memory, to a log file, and back: `docs/tag-log.md`.
//!
//! A log is a [`Header`] and [`Chunk`]s, one behind the other; it only ever grows, and one that was cut is
//! read to its last whole chunk. Every chunk has a CRC-32 and decodes alone.
//!
//! To write: [`Header::encode`]; [`TagEvent::from_timed`] or [`TagEvent::from_ordered`] for each slot of a
//! thread's buffer; [`EventEncoder`] makes a whole chunk of them in a buffer of yours; [`Chunk::encode`]
//! makes any other.
//!
//! ```
//! use hmtt_format::tag_log::{Chunk, Content, EventEncoder, Full, FunctionId, TagEvent};
//! let mut buffer = [0; 4096];
//! let mut encoder = EventEncoder::new(&mut buffer, 17, true)?;
//! encoder.push(TagEvent { tsc: 1000, sp: 0x7ff0, number: FunctionId(3), is_exit: false })?; // Full: finish, begin anew
//! let bytes = encoder.finish(); // append buffer[..bytes] to the log
//! let (chunk, length) = Chunk::decode(&buffer[..bytes]).unwrap().expect("it is whole");
//! let Content::Events(events) = chunk.content else { panic!() };
//! assert_eq!((chunk.thread, length, events.count), (17, bytes, 1));
//! assert_eq!(events.decode(true).next().unwrap().unwrap().number, FunctionId(3));
//! # Ok::<(), Full>(())
//! ```
//!
//! To read: [`Header::decode`], then [`Chunk::decode`] again and again. Nothing here allocates, and no input
//! panics.

mod chunk;
mod crc32;
mod events;
mod frames;
mod varint;

pub use chunk::{
    CHUNK_HEADER_BYTES, Chunk, ClockPair, Content, Ending, Events, LossReason, MAX_PAYLOAD_BYTES,
    Mark,
};
pub use crc32::crc32;
pub use events::{EVENT_BYTES_AT_MOST, EventDecoder, EventEncoder};

#[cfg(test)]
mod tests;

/// Version of the log's format. Any change that a reader must know of raises it.
pub const VERSION: u16 = 1;
/// First bytes of a log.
pub const MAGIC: [u8; 8] = *b"hmtt-tag";
/// Bytes of the [`Header`].
pub const HEADER_BYTES: usize = 48;
const FLAG_TIMED: u16 = 1;
/// Where the CRC-32 of what is before it is.
const CRC_AT: usize = 44;

/// Bytes of an event with its time, in a thread's buffer.
pub const TIMED_SLOT_BYTES: usize = 16;
/// Bytes of an event without.
pub const ORDERED_SLOT_BYTES: usize = 8;
/// Largest number that a function or block may get: the words of its entry and exit have 32 bits.
pub const MAX_NUMBER: u32 = (u32::MAX - 2) / 2;

/// Number of a function or basic block in events and in counts. Both share one range of numbers, and a number never
/// changes its meaning in a process. It is not the place of a function in any list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FunctionId(pub u32);

impl core::fmt::Display for FunctionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl FunctionId {
    /// The number that comes `after` numbers later, of a block of the function or of a later function.
    pub const fn offset(self, after: u32) -> Self {
        FunctionId(self.0.wrapping_add(after))
    }

    /// Index of its counter, where counters are listed by number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a log cannot be read, or not further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogError {
    /// It is no log: it begins with other bytes, or is shorter than a header.
    NotALog,
    /// A format this is not a reader of.
    Version(u16),
    /// The header is not what was written.
    Header,
    /// A chunk longer than any that is written.
    Length(u32),
    /// A chunk is not what was written.
    Checksum,
    /// A chunk's content makes no sense.
    Content,
    /// An event makes no sense.
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
            LogError::Content => f.write_str("a chunk that makes no sense"),
            LogError::Event => f.write_str("an event that makes no sense"),
        }
    }
}

impl core::error::Error for LogError {}

/// A buffer has no room for what is to be written; nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no room for a chunk")
    }
}

impl core::error::Error for Full {}

/// How a log begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Events have times.
    pub is_timed: bool,
    /// The process.
    pub pid: u32,
    /// Ticks of the time stamp counter in a second; 0 if they are not known.
    pub tsc_hz: u64,
    /// When the log was begun, in nanoseconds since 1970.
    pub start_ns: u64,
    /// The same in the map that names the functions.
    pub map_id: [u8; 8],
}

impl Header {
    /// As it is at the start of a file.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(FLAG_TIMED * u16::from(self.is_timed)).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.pid.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.tsc_hz.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.start_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.map_id);
        let crc = crc32(0, &bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From the first bytes of a file.
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
        if u32_at(bytes, CRC_AT) != Some(crc32(0, &bytes[..CRC_AT])) {
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

/// A thread entered or left a function, or entered a block.
///
/// As a stub writes it, little-endian:
///
/// ```text
/// timed    tsc 64 | sp 32 | word 32
/// ordered           sp 32 | word 32      word = 1 + 2 * number + (0 entry | 1 exit); 0: not yet written
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagEvent {
    /// Time stamp counter; 0 in logs without times.
    pub tsc: u64,
    /// Low 32 bits of the stack pointer, which points at the function's return address at its entry as at
    /// its exit: both have the same.
    pub sp: u32,
    /// Number of the function or block.
    pub number: FunctionId,
    /// The function is left.
    pub is_exit: bool,
}

impl TagEvent {
    /// What stubs write last, once the rest is in its place.
    pub const fn word(&self) -> u32 {
        // A number that no function may get does not panic.
        self.number.0.wrapping_mul(2).wrapping_add(1 + self.is_exit as u32)
    }

    /// From a slot of a buffer; none if it has not been written.
    pub fn from_timed(slot: &[u8; TIMED_SLOT_BYTES]) -> Option<Self> {
        let [tsc, rest] = slot.as_chunks::<8>().0 else { return None };
        Some(TagEvent { tsc: u64::from_le_bytes(*tsc), ..Self::from_ordered(rest)? })
    }

    /// From a slot without a time; none if it has not been written.
    pub fn from_ordered(slot: &[u8; ORDERED_SLOT_BYTES]) -> Option<Self> {
        let [sp, word] = slot.as_chunks::<4>().0 else { return None };
        let event = u32::from_le_bytes(*word).checked_sub(1)?;
        let sp = u32::from_le_bytes(*sp);
        Some(TagEvent { tsc: 0, sp, number: FunctionId(event / 2), is_exit: event % 2 != 0 })
    }
}
