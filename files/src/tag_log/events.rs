//! Encodes the events of one thread as a chunk, and decodes them.
//!
//! ```text
//! code 0..2      exit of an open frame; the code is the number of open frames inside it
//! code 3         number, distance   any other exit
//! code 4 + n     distance           entry of function or block n
//! ```
//!
//! All fields are varints. In a timed log, each event ends with the ticks since the previous event.
//! A distance is the stack pointer minus the stack pointer of the innermost open frame
//! ([`super::frames`], [`fold`]).

use super::chunk::{CHUNK_HEADER_BYTES, EVENTS, Events, MAX_PAYLOAD_BYTES, PREFIX_BYTES, seal};
use super::distance::{fold, unfold};
use super::frames::{Frame, Frames};
use super::{Full, FunctionId, LogError, TagEvent};
use crate::varint;

/// Number of codes for exits of open frames.
const KNOWN_EXITS: u64 = 3;
const EXIT: u64 = KNOWN_EXITS;
const ENTRIES: u64 = EXIT + 1;
/// Maximum number of bytes of an event: a code of 33 bits, a number and a distance of 32 bits each,
/// and a time of 64 bits.
pub const EVENT_BYTES_AT_MOST: usize = 3 * 5 + varint::BYTES_AT_MOST;

/// An encoder of a chunk of a thread's events.
#[derive(Debug)]
pub struct EventEncoder<'a> {
    buffer: &'a mut [u8],
    thread: u32,
    is_timed: bool,
    length: usize,
    count: u32,
    first: u64,
    last: u64,
    frames: Frames,
}

impl<'a> EventEncoder<'a> {
    /// Begins a chunk at the start of `buffer`. A buffer longer than the longest chunk is not used
    /// to its end.
    ///
    /// # Errors
    /// [`Full`] if `buffer` is too small for a chunk with one event.
    pub fn new(buffer: &'a mut [u8], thread: u32, is_timed: bool) -> Result<Self, Full> {
        let usable = buffer.len().min(CHUNK_HEADER_BYTES + MAX_PAYLOAD_BYTES);
        let length = CHUNK_HEADER_BYTES + PREFIX_BYTES;
        if usable < length + EVENT_BYTES_AT_MOST {
            return Err(Full);
        }
        let (buffer, _) = buffer.split_at_mut(usable);
        let frames = Frames::new();
        Ok(EventEncoder { buffer, thread, is_timed, length, count: 0, first: 0, last: 0, frames })
    }

    /// Sets the approximate time of the events in a log without times: the time at which they were
    /// collected.
    pub fn set_time(&mut self, tsc: u64) {
        if !self.is_timed {
            self.first = tsc;
        }
    }

    /// Appends an event.
    ///
    /// # Errors
    /// [`Full`] if the event does not fit; it belongs into another chunk then.
    #[inline]
    pub fn push(&mut self, event: TagEvent) -> Result<(), Full> {
        if self.buffer.len() - self.length < EVENT_BYTES_AT_MOST {
            return Err(Full);
        }
        if event.is_exit {
            self.exit(event)
        } else {
            let distance = self.distance(event.sp);
            self.write(ENTRIES + u64::from(event.number.0));
            self.write(distance);
            self.frames.enter(Frame { number: event.number, sp: event.sp });
        }
        if self.is_timed {
            if self.count == 0 {
                (self.first, self.last) = (event.tsc, event.tsc);
            }
            self.write(event.tsc.wrapping_sub(self.last));
            self.last = event.tsc;
        }
        self.count += 1;
        Ok(())
    }

    #[inline]
    fn exit(&mut self, event: TagEvent) {
        let left = Some(Frame { number: event.number, sp: event.sp });
        let known = (0..KNOWN_EXITS).find(|outward| self.frames.get(*outward as usize) == left);
        if let Some(outward) = known {
            self.write(outward);
            return self.frames.exit(outward as usize, event.sp);
        }
        let distance = self.distance(event.sp);
        self.write(EXIT);
        self.write(u64::from(event.number.0));
        self.write(distance);
        self.frames.leave(event.sp);
    }

    #[inline]
    fn distance(&self, sp: u32) -> u64 {
        u64::from(fold(sp.wrapping_sub(self.frames.base()) as i32))
    }

    #[inline]
    fn write(&mut self, number: u64) {
        self.length += varint::write(number, &mut self.buffer[self.length..]);
    }

    /// Number of events so far.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Completes the chunk and returns its length in bytes. A chunk without events is valid, but
    /// need not be written to a log.
    pub fn finish(self) -> usize {
        let prefix = &mut self.buffer[CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + PREFIX_BYTES];
        prefix[..8].copy_from_slice(&self.first.to_le_bytes());
        prefix[8..].copy_from_slice(&self.count.to_le_bytes());
        seal(EVENTS, self.thread, &mut self.buffer[..self.length]);
        self.length
    }
}

/// A decoder of a chunk's events. It returns nothing after an error.
#[derive(Clone, Debug)]
pub struct EventDecoder<'a> {
    rest: &'a [u8],
    is_timed: bool,
    left: u32,
    tsc: u64,
    frames: Frames,
}

impl<'a> Events<'a> {
    /// Decodes the events. `is_timed`: as in the log's header.
    pub fn decode(&self, is_timed: bool) -> EventDecoder<'a> {
        EventDecoder::new(self, is_timed)
    }
}

impl<'a> EventDecoder<'a> {
    pub(super) fn new(events: &Events<'a>, is_timed: bool) -> Self {
        let tsc = if is_timed { events.tsc } else { 0 };
        EventDecoder {
            rest: events.packed,
            is_timed,
            left: events.count,
            tsc,
            frames: Frames::new(),
        }
    }

    #[inline(always)]
    fn event(&mut self) -> Option<TagEvent> {
        let code = varint::read(&mut self.rest)?;
        let (number, sp, is_exit) = match code {
            ..EXIT => {
                let frame = self.frames.get(code as usize)?;
                self.frames.exit(code as usize, frame.sp);
                (frame.number, frame.sp, true)
            }
            EXIT => {
                let (number, sp) = (FunctionId(self.number()?), self.stack_pointer()?);
                self.frames.leave(sp);
                (number, sp, true)
            }
            ENTRIES.. => {
                let number = FunctionId(u32::try_from(code - ENTRIES).ok()?);
                let sp = self.stack_pointer()?;
                self.frames.enter(Frame { number, sp });
                (number, sp, false)
            }
        };
        if self.is_timed {
            self.tsc = self.tsc.wrapping_add(varint::read(&mut self.rest)?);
        }
        Some(TagEvent { tsc: self.tsc, sp, number, is_exit })
    }

    #[inline(always)]
    fn number(&mut self) -> Option<u32> {
        varint::read(&mut self.rest)?.try_into().ok()
    }

    #[inline(always)]
    fn stack_pointer(&mut self) -> Option<u32> {
        let base = self.frames.base();
        Some(base.wrapping_add(unfold(self.number()?) as u32))
    }
}

impl Iterator for EventDecoder<'_> {
    type Item = Result<TagEvent, LogError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let is_whole = core::mem::take(&mut self.rest).is_empty();
            return (!is_whole).then_some(Err(LogError::Event));
        }
        self.left -= 1;
        let event = self.event();
        if event.is_none() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(event.ok_or(LogError::Event))
    }
}
