//! What a log says at once of one thread, or of the process, to bytes, and back.
//!
//! ```text
//! offset 0      4        8        12       16
//!        kind   thread   length   CRC-32   payload      little-endian
//! ```
//!
//! The CRC-32 is that of the 12 bytes before it and the payload. A payload may be longer than is told here:
//! a later version's has more at its end.

use super::{Full, LogError, crc32, u32_at, u64_at};

/// Bytes of a chunk before its payload.
pub const CHUNK_HEADER_BYTES: usize = 16;
/// Longest payload: more is damage.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Bytes before the events of a chunk: the first one's time, their count.
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
    /// The kernel's number of the thread; 0 if it is about none.
    pub thread: u32,
    /// What is said.
    pub content: Content<'a>,
}

/// What a chunk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The thread's next events.
    Events(Events<'a>),
    /// Between the thread's events before and those after, some were lost.
    Lost {
        /// How many.
        count: u64,
        /// Why.
        reason: LossReason,
    },
    /// The thread is tagged from here on.
    ThreadStart {
        /// Its name; not necessarily UTF-8.
        name: &'a [u8],
    },
    /// It has ended.
    ThreadEnd,
    /// The same moment on three clocks.
    Clocks(ClockPair),
    /// The thread made a mark on the memory bus.
    Mark(Mark),
    /// The tagging is over; nothing follows.
    End(Ending),
    /// What a later version says.
    Unknown {
        /// Its kind.
        kind: u32,
        /// All of it.
        payload: &'a [u8],
    },
}

/// Events of one thread, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events<'a> {
    /// Time of the first; in a log without times when they were collected, 0 if that is not known.
    pub tsc: u64,
    /// How many.
    pub count: u32,
    /// As [`EventDecoder`](super::EventDecoder) takes them.
    pub packed: &'a [u8],
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossReason {
    /// The thread's buffer was full.
    BufferFull,
    /// A signal came while a stub wrote.
    Interrupted,
    /// The program wrote over them.
    Damaged,
    /// What a later version says.
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

/// A moment on three clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockPair {
    /// Time stamp counter.
    pub tsc: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// Accesses to a register of the card, which sees them as one mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The register.
    pub register: u32,
    /// Time stamp counter before the first access.
    pub tsc_before: u64,
    /// And behind the last.
    pub tsc_after: u64,
}

/// How tagging came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process went on without tags.
    Detached,
    /// It exited, with this status.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It became another program.
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

/// Completes a chunk whose payload is in its place.
pub(super) fn seal(kind: u32, thread: u32, chunk: &mut [u8]) {
    let length = (chunk.len() - CHUNK_HEADER_BYTES) as u32;
    chunk[..4].copy_from_slice(&kind.to_le_bytes());
    chunk[4..LENGTH_AT].copy_from_slice(&thread.to_le_bytes());
    chunk[LENGTH_AT..CRC_AT].copy_from_slice(&length.to_le_bytes());
    let crc = crc32(crc32(0, &chunk[..CRC_AT]), &chunk[CHUNK_HEADER_BYTES..]);
    chunk[CRC_AT..CHUNK_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

impl<'a> Chunk<'a> {
    /// Writes it to the start of `buffer`; the bytes it has there come back.
    ///
    /// # Errors
    /// [`Full`] if it is longer than `buffer` or than any chunk may be.
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

    /// Bytes of the chunk at the start of `bytes`, which may be cut; none if that cannot be told.
    ///
    /// # Errors
    /// [`LogError::Length`].
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, LogError> {
        match bytes.get(..CHUNK_HEADER_BYTES).and_then(|header| u32_at(header, LENGTH_AT)) {
            Some(length) if length as usize > MAX_PAYLOAD_BYTES => Err(LogError::Length(length)),
            length => Ok(length.map(|length| CHUNK_HEADER_BYTES + length as usize)),
        }
    }

    /// The chunk at the start of `bytes`, and how many of them it has; none if it is cut.
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
        if crc32(crc32(0, &header[..CRC_AT]), payload) != field(CRC_AT) {
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
