//! Encodes and decodes the chunks of a tag log. A chunk is about one thread, or about the process.
//!
//! ```text
//! offset 0      4        8        12       16
//!        kind   thread   length   CRC-32   payload      little-endian
//! ```
//!
//! The CRC-32 is computed over the 12 bytes before it and the payload. The payload of a later
//! version may be longer, with additional fields at its end.

use super::{Full, LogError, u32_at, u64_at};
use crate::crc32;

/// Size of a chunk's header in bytes.
pub const CHUNK_HEADER_BYTES: usize = 16;
/// Longest payload in bytes; a longer one is damage.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Size in bytes of the fields before the events of a chunk: the time of the first event and the
/// number of events.
pub(super) const PREFIX_BYTES: usize = 12;
const LENGTH_AT: usize = 8;
const CRC_AT: usize = 12;

pub(super) const EVENTS: u32 = 1;
const LOST: u32 = 2;
const THREAD_START: u32 = 3;
const THREAD_END: u32 = 4;
const CLOCKS: u32 = 5;
const MARK: u32 = 6;
const END: u32 = 7;

/// A part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Id of the thread in the kernel; 0 if the chunk is about the process.
    pub thread: u32,
    /// Content of the chunk.
    pub content: Content<'a>,
}

/// The content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The next events of the thread.
    Events(Events<'a>),
    /// Events of the thread that were lost at this place.
    Lost {
        /// Number of lost events.
        count: u64,
        /// The reason of the loss.
        reason: LossReason,
    },
    /// The thread is tagged from this place on.
    ThreadStart {
        /// Name of the thread; not necessarily UTF-8.
        name: &'a [u8],
    },
    /// The thread has ended.
    ThreadEnd,
    /// The same moment on three clocks.
    Clocks(ClockPair),
    /// A mark that the thread made on the memory bus.
    Mark(Mark),
    /// The end of tagging; no chunk follows.
    End(Ending),
    /// A chunk of a kind that a later version defines.
    Unknown {
        /// Code of the kind.
        kind: u32,
        /// The whole payload.
        payload: &'a [u8],
    },
}

/// Consecutive events of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events<'a> {
    /// Time of the first event. In a log without times: the time at which the events were
    /// collected, or 0 if it is not known.
    pub tsc: u64,
    /// Number of events.
    pub count: u32,
    /// The encoded events, which [`EventDecoder`](super::EventDecoder) decodes.
    pub packed: &'a [u8],
}

/// The reason why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossReason {
    /// The thread's buffer was full.
    BufferFull,
    /// A signal interrupted a stub while it wrote an event.
    Interrupted,
    /// The program overwrote the events.
    Damaged,
    /// A reason that a later version defines.
    Unknown(u32),
}

impl LossReason {
    const fn code(self) -> u32 {
        match self {
            LossReason::BufferFull => 1,
            LossReason::Interrupted => 2,
            LossReason::Damaged => 3,
            LossReason::Unknown(code) => code,
        }
    }

    const fn from_code(code: u32) -> Self {
        match code {
            1 => LossReason::BufferFull,
            2 => LossReason::Interrupted,
            3 => LossReason::Damaged,
            code => LossReason::Unknown(code),
        }
    }
}

/// The same moment on three clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockPair {
    /// Time stamp counter.
    pub tsc: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// A mark: accesses to a register of the card, which records them as one mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The mark's register.
    pub register: u32,
    /// Time stamp counter before the first access.
    pub tsc_before: u64,
    /// Time stamp counter after the last access.
    pub tsc_after: u64,
}

/// The reason why tagging ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process continues without tags.
    Detached,
    /// The process exited with this status.
    Exited(i32),
    /// This signal ended the process.
    Signaled(i32),
    /// The process executed another program.
    Replaced,
}

impl Ending {
    const fn code(self) -> (u32, i32) {
        match self {
            Ending::Detached => (0, 0),
            Ending::Exited(status) => (1, status),
            Ending::Signaled(signal) => (2, signal),
            Ending::Replaced => (3, 0),
        }
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let number = u32_at(payload, 4)? as i32;
        Some(match u32_at(payload, 0)? {
            0 => Ending::Detached,
            1 => Ending::Exited(number),
            2 => Ending::Signaled(number),
            3 => Ending::Replaced,
            _ => return None,
        })
    }
}

/// Writes the header of a chunk whose payload has been written.
pub(super) fn seal(kind: u32, thread: u32, chunk: &mut [u8]) {
    let length = (chunk.len() - CHUNK_HEADER_BYTES) as u32;
    chunk[..4].copy_from_slice(&kind.to_le_bytes());
    chunk[4..LENGTH_AT].copy_from_slice(&thread.to_le_bytes());
    chunk[LENGTH_AT..CRC_AT].copy_from_slice(&length.to_le_bytes());
    let crc = crc32(&[&chunk[..CRC_AT], &chunk[CHUNK_HEADER_BYTES..]]);
    chunk[CRC_AT..CHUNK_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

impl<'a> Chunk<'a> {
    /// Writes the chunk to the start of `buffer` and returns its length in bytes.
    ///
    /// # Errors
    /// [`Full`] if the chunk is longer than `buffer` or than the longest chunk.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, Full> {
        let four = |number: u32| number.to_le_bytes();
        let eight = |number: u64| number.to_le_bytes();
        let (kind, parts): (u32, [&[u8]; 3]) = match &self.content {
            Content::Events(events) => {
                (EVENTS, [&eight(events.tsc), &four(events.count), events.packed])
            }
            Content::Lost { count, reason } => (LOST, [&eight(*count), &four(reason.code()), &[]]),
            Content::ThreadStart { name } => (THREAD_START, [name, &[], &[]]),
            Content::ThreadEnd => (THREAD_END, [&[], &[], &[]]),
            Content::Clocks(ClockPair { tsc, monotonic_ns, realtime_ns }) => {
                (CLOCKS, [&eight(*tsc), &eight(*monotonic_ns), &eight(*realtime_ns)])
            }
            Content::Mark(Mark { register, tsc_before, tsc_after }) => {
                (MARK, [&eight(*tsc_before), &eight(*tsc_after), &four(*register)])
            }
            Content::End(ending) => {
                let (code, number) = ending.code();
                (END, [&four(code), &four(number as u32), &[]])
            }
            Content::Unknown { kind, payload } => (*kind, [payload, &[], &[]]),
        };
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let length = CHUNK_HEADER_BYTES + payload;
        let Some(chunk) = buffer.get_mut(..length).filter(|_| payload <= MAX_PAYLOAD_BYTES) else {
            return Err(Full);
        };
        let mut at = CHUNK_HEADER_BYTES;
        for part in parts {
            chunk[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        seal(kind, self.thread, chunk);
        Ok(length)
    }

    /// Length in bytes of the chunk at the start of `bytes`, which may contain only a part of the
    /// chunk; `None` if the header is truncated.
    ///
    /// # Errors
    /// [`LogError::Length`] if the length is above the limit.
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, LogError> {
        match bytes.get(..CHUNK_HEADER_BYTES).and_then(|header| u32_at(header, LENGTH_AT)) {
            Some(length) if length as usize > MAX_PAYLOAD_BYTES => Err(LogError::Length(length)),
            length => Ok(length.map(|length| CHUNK_HEADER_BYTES + length as usize)),
        }
    }

    /// Decodes the chunk at the start of `bytes` and returns it with its length in bytes; `None` if
    /// it is truncated.
    ///
    /// # Errors
    /// [`LogError::Length`], [`LogError::Checksum`] or [`LogError::Content`].
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, LogError> {
        let Some(end) = Self::length(bytes)? else { return Ok(None) };
        let Some((header, payload)) =
            bytes.get(..end).and_then(|chunk| chunk.split_at_checked(CHUNK_HEADER_BYTES))
        else {
            return Ok(None);
        };
        let field = |at| u32_at(header, at).unwrap_or_default();
        if crc32(&[&header[..CRC_AT], payload]) != field(CRC_AT) {
            return Err(LogError::Checksum);
        }
        let content = Content::decode(field(0), payload).ok_or(LogError::Content)?;
        Ok(Some((Chunk { thread: field(4), content }, end)))
    }
}

impl<'a> Content<'a> {
    fn decode(kind: u32, payload: &'a [u8]) -> Option<Self> {
        let (four, eight) = (|at| u32_at(payload, at), |at| u64_at(payload, at));
        Some(match kind {
            EVENTS => {
                let packed = payload.get(PREFIX_BYTES..)?;
                Content::Events(Events { tsc: eight(0)?, count: four(8)?, packed })
            }
            LOST => Content::Lost { count: eight(0)?, reason: LossReason::from_code(four(8)?) },
            THREAD_START => Content::ThreadStart { name: payload },
            THREAD_END => Content::ThreadEnd,
            CLOCKS => Content::Clocks(ClockPair {
                tsc: eight(0)?,
                monotonic_ns: eight(8)?,
                realtime_ns: eight(16)?,
            }),
            MARK => Content::Mark(Mark {
                register: four(16)?,
                tsc_before: eight(0)?,
                tsc_after: eight(8)?,
            }),
            END => Content::End(Ending::decode(payload)?),
            kind => Content::Unknown { kind, payload },
        })
    }
}
