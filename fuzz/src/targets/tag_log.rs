//! Compares the reader of tag logs with a model of the document, and checks that the calls add up.
//!
//! A fuzzer does not find valid checksums, so an input is a script: flags, then for each chunk its
//! kind, its thread, the length of its payload and the payload.

use hmtt::tags::call_counts::CallCounts;
use hmtt::tags::log_reader::LogReader;
use hmtt::tags::threads::Threads;
use hmtt_files::tag_log::{Chunk, Content, EventEncoder, FunctionId, Header, LogError, TagEvent};

/// A reader that returns a few bytes of a log at a time.
struct Few<'a>(&'a [u8]);

impl std::io::Read for Few<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let few = buffer.len().min(7);
        self.0.read(&mut buffer[..few])
    }
}

/// A chunk: kind, thread, payload.
type ChunkParts<'s> = (u32, u32, &'s [u8]);

/// Builds the log that a script describes. Returns its bytes and its chunks.
pub(super) fn log(is_timed: bool, mut script: &[u8]) -> (Vec<u8>, Vec<ChunkParts<'_>>) {
    let header = Header { is_timed, pid: 1, ..Header::default() };
    let (mut log, mut chunks, mut buffer) = (header.encode().to_vec(), Vec::new(), [0; 300]);
    while let [kind, thread, length, rest @ ..] = script {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let (kind, thread) = (u32::from(*kind), u32::from(thread % 4));
        let chunk = Chunk { thread, content: Content::Unknown { kind, payload } };
        let bytes = chunk.encode(&mut buffer).expect("it is short");
        log.extend_from_slice(&buffer[..bytes]);
        chunks.push((kind, thread, payload));
        script = rest;
    }
    (log, chunks)
}

/// Decodes a number of at most 64 bits from the front.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut sum = 0u128;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        sum |= u128::from(byte & 127) << (7 * place);
        if byte & 128 == 0 {
            return u64::try_from(sum).ok();
        }
    }
    None
}

fn distance(bytes: &mut &[u8]) -> Option<u32> {
    let number = i64::try_from(number(bytes)?).ok().filter(|number| *number < 1 << 32)?;
    let (low, high) = (number % (1 << 29), number >> 29);
    let words = if low % 2 == 0 { low / 2 } else { -(low + 1) / 2 };
    Some((words * 8 + high) as u32)
}

/// State that the document requires while a chunk's events are decoded.
#[derive(Default)]
struct Plain {
    is_timed: bool,
    tsc: u64,
    frames: Vec<(u32, u32)>,
    last: u32,
}

impl Plain {
    fn event(&mut self, rest: &mut &[u8]) -> Option<TagEvent> {
        let base = self.frames.last().map_or(self.last, |(_, sp)| *sp);
        let code = number(rest)?;
        let (number, sp) = match code {
            0..=2 => {
                let at = self.frames.len().checked_sub(1 + code as usize)?;
                let frame = self.frames[at];
                self.frames.truncate(at);
                frame
            }
            3 => (u32::try_from(number(rest)?).ok()?, base.wrapping_add(distance(rest)?)),
            code => (u32::try_from(code - 4).ok()?, base.wrapping_add(distance(rest)?)),
        };
        if code > 2 {
            let is_over = |(_, top): &mut (u32, u32)| top.wrapping_sub(sp) as i32 <= 0;
            while self.frames.pop_if(is_over).is_some() {}
        }
        if code > 3 {
            self.frames.push((number, sp));
            self.frames.drain(..self.frames.len().saturating_sub(64));
        }
        self.last = sp;
        if self.is_timed {
            self.tsc = self.tsc.wrapping_add(self::number(rest)?);
        }
        Some(TagEvent { tsc: self.tsc, sp, number: FunctionId(number), is_exit: code <= 3 })
    }
}

/// Decodes a chunk of events by the document; `None` if it is too short. The flag is false if an
/// event is invalid.
fn plain(is_timed: bool, payload: &[u8]) -> Option<(Vec<TagEvent>, bool)> {
    let tsc = u64::from_le_bytes(payload.get(..8)?.try_into().ok()?);
    let count = u32::from_le_bytes(payload.get(8..12)?.try_into().ok()?);
    let mut plain = Plain { is_timed, tsc: if is_timed { tsc } else { 0 }, ..Plain::default() };
    let (mut events, mut rest) = (Vec::new(), &payload[12..]);
    for _ in 0..count {
        match plain.event(&mut rest) {
            Some(event) => events.push(event),
            None => return Some((events, false)),
        }
    }
    Some((events, rest.is_empty()))
}

/// The function number that is read as the number of a block.
const BLOCK: FunctionId = FunctionId(9);

/// Compares reader and model, up to the first invalid chunk.
pub fn check(bytes: &[u8]) {
    raw(bytes);
    let [flags, script @ ..] = bytes else { return };
    let is_timed = flags & 1 != 0;
    let (log, chunks) = log(is_timed, script);
    let mut reader = LogReader::new(Few(&log)).expect("its header is good");
    let mut threads = Threads::new(is_timed, [(BLOCK, FunctionId(0))], CallCounts::default());
    let (mut entries, mut exits) = (0, 0);
    for (kind, thread, payload) in chunks {
        let chunk = match reader.next_chunk() {
            Ok(chunk) => chunk.expect("there is one more"),
            Err(_) => {
                assert!((1..=7).contains(&kind), "{kind}: {payload:x?}");
                break;
            }
        };
        assert_eq!(chunk.thread, thread);
        let result = threads.chunk(&chunk);
        let Content::Events(events) = chunk.content else { continue };
        let (plain, is_good) = plain(is_timed, payload).expect("it was read");
        let read: Vec<_> = events.decode(is_timed).collect();
        let good: Vec<TagEvent> = read.iter().filter_map(|event| event.ok()).collect();
        assert_eq!(good, plain);
        assert_eq!(read.last().is_some_and(|event| event.is_err()), !is_good);
        assert_eq!(result, if is_good { Ok(()) } else { Err(LogError::Event) });
        again(is_timed, &plain);
        // An exit of a block counts as an exit of a function that was not entered.
        entries +=
            plain.iter().filter(|event| !event.is_exit && event.number != BLOCK).count() as u64;
        exits += plain.iter().filter(|event| event.is_exit && event.number != BLOCK).count() as u64;
    }
    threads.finish();
    let unmatched: u64 = threads.threads.iter().map(|thread| thread.unmatched).sum();
    let (mut calls, mut ends, mut returned) = (0, 0, 0);
    for sum in threads.listener.functions().values() {
        calls += sum.calls;
        returned += sum.returned;
        ends += sum.returned + sum.abandoned + sum.ended + sum.open;
    }
    assert_eq!((calls, ends, returned + unmatched), (entries, entries, exits));
}

/// Checks that events are the same after encoding and decoding.
fn again(is_timed: bool, events: &[TagEvent]) {
    let mut buffer = vec![0; 1 << 15];
    let mut encoder = EventEncoder::new(&mut buffer, 1, is_timed).expect("there is space");
    for event in events {
        encoder.push(*event).expect("there is space");
    }
    let length = encoder.finish();
    let chunk = Chunk::decode(&buffer[..length]).expect("it is whole");
    let Some((Chunk { content: Content::Events(read), .. }, _)) = chunk else { panic!() };
    assert!(read.decode(is_timed).map(Result::ok).eq(events.iter().map(|event| Some(*event))));
}

/// Reads the input directly as a log. It rarely is a valid log.
fn raw(bytes: &[u8]) {
    if let Ok(mut reader) = LogReader::new(bytes) {
        while let Ok(Some(_)) = reader.next_chunk() {}
        assert!(reader.offset() <= bytes.len() as u64);
    }
    let _ = Chunk::decode(bytes);
}
