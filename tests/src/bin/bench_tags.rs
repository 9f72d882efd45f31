//! Measures the encoding of tag events into a log and the decoding of the log into calls, and
//! prints a Markdown table: `bench_tags [MILLIONS]`.
//!
//! Times are processor times, so other load on the machine has little influence.

use std::io::{self, Read};
use std::mem::zeroed;
use std::time::Duration;

use anyhow::{Result, ensure};
use hmtt::tags::call_counts::CallCounts;
use hmtt::tags::log_reader::LogReader;
use hmtt::tags::threads::Threads;
use hmtt_files::tag_log::{Chunk, Content, EventEncoder, FunctionId, Header, TagEvent};

const RUNS: usize = 5;
/// Number of events that are generated and then repeated, so that they fit in memory.
const EVENTS: usize = 1_000_000;
const CHUNK_BYTES: usize = 1 << 16;
const FUNCTIONS: u64 = 200;

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    // SAFETY: a C structure of integers, for which zeros are valid.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: the kernel writes to a structure that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Generates the events of a program whose functions call one another. The stack is as deep at the
/// end as at the start.
fn program() -> Vec<TagEvent> {
    let mut state = 1u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % limit
    };
    let (mut events, mut stack, mut tsc) = (Vec::new(), Vec::<(u32, u32)>::new(), 0);
    while events.len() < EVENTS || !stack.is_empty() {
        tsc += 20 + below(280);
        let is_over = events.len() >= EVENTS || below(60) < 20 + stack.len() as u64;
        let (number, sp, is_exit) = match stack.pop_if(|_| is_over) {
            Some((number, sp)) => (number, sp, true),
            None => {
                let (caller, sp) = stack.last().copied().unwrap_or((0, 0x7fff_f000));
                // A function calls a few others, each from one place on the stack.
                let called = (u64::from(caller) * 3 + 1 + below(3)) % FUNCTIONS;
                let sp = sp - 16 - caller * 53 % 48 * 8;
                stack.push((called as u32, sp));
                (called as u32, sp, false)
            }
        };
        events.push(TagEvent { tsc, sp, number: FunctionId(number), is_exit });
    }
    events
}

/// Encodes events into chunks. Returns the chunks and the millions of events encoded per second.
fn encode(events: &[TagEvent], is_timed: bool) -> Result<(Vec<u8>, f64)> {
    let (mut chunks, mut buffer) = (Vec::new(), vec![0; CHUNK_BYTES]);
    let mut rest = events.iter().peekable();
    let begin = processor_time();
    while rest.peek().is_some() {
        let mut encoder = EventEncoder::new(&mut buffer, 1, is_timed)?;
        while rest.next_if(|event| encoder.push(**event).is_ok()).is_some() {}
        let length = encoder.finish();
        chunks.extend_from_slice(&buffer[..length]);
    }
    let speed = events.len() as f64 / (processor_time() - begin).as_secs_f64() / 1e6;
    Ok((chunks, speed))
}

/// A log with a header and repeated chunks.
struct Log<'a> {
    header: &'a [u8],
    chunks: &'a [u8],
    rest: &'a [u8],
    rounds: usize,
}

impl Read for Log<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.header.is_empty() {
            return self.header.read(buffer);
        }
        if self.rest.is_empty() && self.rounds != 0 {
            (self.rest, self.rounds) = (self.chunks, self.rounds - 1);
        }
        self.rest.read(buffer)
    }
}

/// Returns the millions of events decoded per second.
fn decode(chunks: &[u8], is_timed: bool) -> Result<f64> {
    let (mut rest, mut events, mut sum) = (chunks, 0, 0u64);
    let begin = processor_time();
    while let Some((chunk, length)) = Chunk::decode(rest)? {
        let Content::Events(packed) = chunk.content else { break };
        for event in packed.decode(is_timed) {
            sum = sum.wrapping_add(u64::from(event?.sp));
            events += 1;
        }
        rest = &rest[length..];
    }
    ensure!(sum != 0, "there were no events");
    Ok(f64::from(events) / (processor_time() - begin).as_secs_f64() / 1e6)
}

/// Returns the millions of events per second that are read as calls.
fn read(header: &Header, chunks: &[u8], rounds: usize, expected: u64) -> Result<f64> {
    let bytes = header.encode();
    let begin = processor_time();
    let mut reader = LogReader::new(Log { header: &bytes, chunks, rest: &[], rounds })?;
    let mut threads = Threads::new(header.is_timed, [], CallCounts::default());
    while let Some(chunk) = reader.next_chunk()? {
        threads.chunk(&chunk)?;
    }
    threads.finish();
    let seconds = (processor_time() - begin).as_secs_f64();
    let functions = threads.listener.functions();
    let calls: u64 = functions.values().map(|sum| sum.calls).sum();
    let returned: u64 = functions.values().map(|sum| sum.returned).sum();
    ensure!((calls, returned) == (expected / 2, expected / 2), "{calls} calls, {returned} returns");
    Ok(expected as f64 / seconds / 1e6)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let millions = std::env::args().nth(1).map_or(Ok(100), |argument| argument.parse())?;
    let events = program();
    let rounds = (millions * 1_000_000usize).div_ceil(events.len());
    println!("| log | bytes an event | to the log, M events/s of one core | decoded | to calls |");
    println!("|---|---:|---:|---:|---:|");
    for (name, is_timed) in [("in order only", false), ("with times", true)] {
        let header = Header { is_timed, tsc_hz: 2_000_000_000, ..Header::default() };
        let (chunks, _) = encode(&events, is_timed)?;
        let (mut encoded, mut decoded, mut read_) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            encoded.push(encode(&events, is_timed)?.1);
            decoded.push(decode(&chunks, is_timed)?);
            let expected = (rounds * events.len()) as u64;
            read_.push(read(&header, &chunks, rounds, expected)?);
        }
        let bytes = chunks.len() as f64 / events.len() as f64;
        let (encoded, decoded, read_) = (median(encoded), median(decoded), median(read_));
        println!("| {name} | {bytes:.2} | {encoded:.0} | {decoded:.0} | {read_:.0} |");
    }
    Ok(())
}
