//! Generates the frames of a software card: full frames of line accesses.
//!
//! The words of the records repeat after [`POOL_FRAMES`] frames, or after the requested number.
//! Counters, clocks and counts of accesses continue, so a receiver can prove that it lost nothing.

mod capture;
mod sender;

pub use capture::write;
pub use sender::{Pace, Sent, send};

use hmtt_format::address_map::{Axis, MapBuilder};
use hmtt_format::config::{DEFAULT_SLICE_CODE, Granularity, Mode};
use hmtt_format::frame::{
    FrameKind, MAX_FRAME_BYTES, MAX_WORDS, PayloadHeader, SYNC_WORDS, Sync, encode,
};
use hmtt_format::info::StaticWords;
use hmtt_format::record::Half;
use hmtt_format::{Direction, FORMAT_VERSION, Generation, MemoryDescription, Report};

/// Usual number of distinct frames.
pub const POOL_FRAMES: usize = 4096;
/// Number of accesses in a full frame.
pub const FRAME_ACCESSES: u64 = (MAX_WORDS - SYNC_WORDS) as u64 * 2;
/// Number of clocks in a full frame: there is one access per clock.
const FRAME_CLOCKS: u64 = FRAME_ACCESSES;
const LINE_LOG2: u8 = 6;

/// Generates frames.
pub struct Load {
    /// Records of each frame, and the number of writes among them.
    pool: Vec<(Vec<u64>, u64)>,
    counter: u64,
    accesses: u64,
    writes: u64,
}

/// Returns a pseudorandom number by Marsaglia's xorshift64, which is fast.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Default for Load {
    fn default() -> Self {
        Load::new(POOL_FRAMES)
    }
}

impl Load {
    /// Creates a generator. Half of the accesses are in 16 streams of consecutive lines, half are
    /// random in 1 GiB. A third are writes. `pool`: number of distinct frames, of 1.5 KB of memory
    /// each.
    pub fn new(pool: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut streams: Vec<u32> =
            (0..16).map(|_| random(&mut state) as u32 & 0xff_ffff).collect();
        let mut half = |writes: &mut u64| {
            let r = random(&mut state);
            let stream = &mut streams[(r >> 8) as usize & 15];
            *stream = (*stream + 1) & 0xff_ffff;
            let number = if r & 1 == 0 { *stream } else { (r >> 16) as u32 & 0xff_ffff };
            let write = (r >> 4).is_multiple_of(3);
            *writes += u64::from(write);
            let direction = Direction::from_bit(write);
            u64::from(Half::Access { direction, delta: 1, number }.encode())
        };
        let words = || {
            let mut writes = 0;
            let mut word = |_| half(&mut writes) << 32 | half(&mut writes);
            let words = (0..MAX_WORDS - SYNC_WORDS).map(&mut word).collect();
            (words, writes)
        };
        Load {
            pool: std::iter::repeat_with(words).take(pool.max(1)).collect(),
            counter: 0,
            accesses: 0,
            writes: 0,
        }
    }

    /// Builds the next frame and returns its length.
    pub fn next(&mut self, buffer: &mut [u8; MAX_FRAME_BYTES]) -> usize {
        let (words, writes) = &self.pool[self.counter as usize % self.pool.len()];
        let length = frame(buffer, self.counter, self.accesses, FrameKind::Data, words);
        self.counter += 1;
        self.accesses += FRAME_ACCESSES;
        self.writes += writes;
        length
    }

    /// Builds a frame with the card's report, which counts one burst for each access. `end`: the
    /// report ends the trace.
    pub fn report(&mut self, end: bool, buffer: &mut [u8; MAX_FRAME_BYTES]) -> usize {
        let memory = memory();
        let words = StaticWords::new(&memory);
        let report = Report {
            version: FORMAT_VERSION,
            running: !end,
            mode: Mode::Line,
            frequency: false,
            granularity: Granularity::Line,
            slice_code: DEFAULT_SLICE_CODE,
            threshold: MAX_WORDS,
            tag_window: None,
            reads: self.accesses - self.writes,
            writes: self.writes,
            faults: 0,
            tags: 0,
            unreported: 0,
            burst_length: Some(memory.burst_length),
            digest: words.as_slice()[0],
            memory,
        };
        let words = [&report.encode_dynamic()[..], words.as_slice()].concat();
        let kind = if end { FrameKind::End } else { FrameKind::Info };
        let length = frame(buffer, self.counter, self.accesses, kind, &words);
        self.counter += 1;
        length
    }

    /// Number of accesses in all frames so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

/// Returns a memory of 1 GiB of DDR1 with 8 KiB rows, whose banks are hashed with row bits.
fn memory() -> MemoryDescription {
    let mut map = MapBuilder::default();
    let mut bit = |axis, bit, mask| map.bit(axis, bit, mask).expect("the map has one bit each");
    (0..10).for_each(|n| bit(Axis::Column, n, 1 << (3 + n)));
    (0..2).for_each(|n| bit(Axis::Bank, n, 0b101 << (13 + n)));
    (0..15).for_each(|n| bit(Axis::Row, n, 1 << (15 + n)));
    let map = map.build().expect("a map that can be inverted");
    MemoryDescription::new(Generation::Ddr1, map, 8, 4, 10_000).expect("a memory")
}

fn frame(
    buffer: &mut [u8; MAX_FRAME_BYTES],
    counter: u64,
    accesses: u64,
    kind: FrameKind,
    words: &[u64],
) -> usize {
    let clock = accesses / FRAME_ACCESSES * FRAME_CLOCKS;
    let sync = Sync { clock, unit_log2: LINE_LOG2, segment: 0, accesses, lost: 0 };
    let [first, second] = sync.encode();
    let mut frame_words = [0; MAX_WORDS as usize];
    let count = words.len() + usize::from(SYNC_WORDS);
    frame_words[..2].copy_from_slice(&[first, second]);
    frame_words[2..count].copy_from_slice(words);
    let header =
        PayloadHeader { version: FORMAT_VERSION, kind: kind as u8, words: count as u8, lost: 0 };
    encode(buffer, counter, header, &frame_words[..count])
}
