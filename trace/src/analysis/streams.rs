//! Finds streams: accesses whose addresses continue with the same stride.
//!
//! An access is *in a stream* if its stride, the distance from the access before it, is not 0 and
//! equals the stride before it. If instructions are known, "before" means by the same instruction
//! in the same thread. Otherwise the access's line is looked up in a table of [`OPEN_STREAMS`]
//! streams. The line continues the stream that has this line as its next line, or else the nearest
//! stream within [`NEAR_LINES`] lines. If there is no such stream, the line begins a new stream in
//! place of the stream that was used longest ago. The length of a stream is the number of its
//! accesses, including the two accesses before the first access in the stream. For example, the
//! addresses 0, 128, 256, 384 have two accesses in a stream of length 4. All streams end at a gap
//! and at a restart.
//!
//! Memory: 80 to 160 bytes for each instruction, and at most [`MOST_STRIDES`] strides; accesses
//! with further strides are counted together. In [`Analysis::append`] each stream that is open
//! between the pieces ends, and begins anew with its third access. [`Analysis::merge`] adds all
//! counts.

mod open;

use serde::{Deserialize, Serialize};

use self::open::Open;
use super::hash::Table;
use super::histogram::{Histogram, limits};
use super::{Analysis, Batch, Gap, LINE_LOG2};

/// Number of open streams if instructions are not known.
pub const OPEN_STREAMS: usize = 16;
/// Longest distance, in lines, from the last line of a stream to a line that continues the stream
/// with another stride.
pub const NEAR_LINES: u64 = 64;
/// Maximum number of strides that are counted separately.
pub const MOST_STRIDES: usize = 1 << 16;

/// An open stream.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Stream {
    last: u64,
    stride: i64,
    /// Accesses of the stream so far; it has a stride if there are at least 2.
    accesses: u64,
    /// For an open stream: number of looked-up lines when the stream was used last. For an
    /// instruction's stream: number of gaps before the stream.
    used: u64,
}

/// Counts of accesses and streams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Counts {
    accesses: u64,
    in_streams: u64,
    repeated: u64,
    other_strides: u64,
    /// Accesses in streams by stride, as [`folded`].
    strides: Table<u64>,
    /// Lengths of streams that have ended.
    lengths: Histogram,
}

/// A stride as a number whose lowest bit is its sign: 0, -1, 1, -2 become 0, 1, 2, 3.
const fn folded(stride: i64) -> u64 {
    (stride << 1 ^ stride >> 63) as u64
}

const fn unfolded(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

impl Counts {
    fn add_stride(&mut self, stride: u64, accesses: u64) {
        let is_known = self.strides.len() < MOST_STRIDES || self.strides.get(stride).is_some();
        if is_known && stride != u64::MAX {
            let sum = self.strides.entry(stride);
            *sum = sum.saturating_add(accesses);
        } else {
            self.other_strides = self.other_strides.saturating_add(accesses);
        }
    }

    fn end(&mut self, stream: &Stream) {
        if stream.accesses > 2 && stream.stride != 0 {
            self.lengths.add(stream.accesses);
        }
    }

    /// Continues a stream, whose addresses are in units of 2^`log2` bytes.
    #[inline]
    fn follow(&mut self, stream: &mut Stream, address: u64, log2: u32) {
        let stride = address.wrapping_sub(stream.last) as i64;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.repeated, u64::from(stride == 0 && stream.accesses > 0));
        if stream.accesses >= 2 && stride == stream.stride {
            add(&mut stream.accesses, 1);
            if stride != 0 {
                add(&mut self.in_streams, 1);
                self.add_stride(folded(stride << log2), 1);
            }
        } else {
            self.end(stream);
            (stream.accesses, stream.stride) = (1 + stream.accesses.min(1), stride);
        }
        stream.last = address;
    }

    fn merge(&mut self, other: &Counts) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.in_streams = self.in_streams.saturating_add(other.in_streams);
        self.repeated = self.repeated.saturating_add(other.repeated);
        self.other_strides = self.other_strides.saturating_add(other.other_strides);
        other.strides.iter().for_each(|(stride, accesses)| self.add_stride(stride, accesses));
        self.lengths.merge(&other.lengths);
    }
}

/// Accesses with a stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stride {
    /// Bytes from one access to the next.
    pub stride_bytes: i64,
    /// Accesses in streams with this stride.
    pub accesses: u64,
}

/// Number of streams with a length in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// Minimum number of accesses of a stream.
    pub at_least: u64,
    /// Maximum number of accesses of a stream.
    pub at_most: u64,
    /// Number of streams.
    pub streams: u64,
}

/// The result: accesses in streams, with strides and lengths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Whether streams were followed by instruction; if not, by nearby lines.
    pub by_instruction: bool,
    /// Number of accesses.
    pub accesses: u64,
    /// Accesses in streams.
    pub stream_accesses: u64,
    /// Accesses to the same address as the access before, which are in no stream; without
    /// instructions, to the same line.
    pub repeated_accesses: u64,
    /// Share of all accesses that are in streams; `None` without accesses.
    pub stream_share: Option<f64>,
    /// The strides with most accesses in streams.
    pub strides: Vec<Stride>,
    /// Accesses in streams whose strides were not counted separately.
    pub other_strides: u64,
    /// Streams by their lengths.
    pub stream_lengths: Vec<Lengths>,
}

/// Finds streams.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, streams::Streams};
///
/// let mut streams = Streams::new(1);
/// let addresses: Vec<u64> = (0..100).map(|number| number * 128).collect();
/// streams.add(&Batch::new(&addresses, &[false; 100]));
/// let found = streams.result();
/// assert_eq!((found.stream_accesses, found.strides[0].stride_bytes), (98, 128));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Streams {
    most: usize,
    counts: Counts,
    instructions: Table<Stream>,
    open: Open,
    /// Accesses that were looked up in `open`.
    looked_up: u64,
    /// Number of gaps and restarts so far. All streams end at each of them.
    #[serde(default)]
    gaps: u64,
}

/// Key of an instruction of a thread in the table of streams: below 2^64 - 1, the key of free
/// places.
fn key(instruction: u64, thread: Option<u32>) -> u64 {
    let thread = u64::from(thread.unwrap_or(0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (instruction ^ thread).min(u64::MAX - 1)
}

impl Streams {
    /// Begins without accesses. `most`: maximum number of strides that are listed in the result.
    pub fn new(most: usize) -> Self {
        let (counts, instructions, open) = Default::default();
        Streams { most, counts, instructions, open, looked_up: 0, gaps: 0 }
    }

    /// Adds an access to a line, whose instruction is not known.
    fn look_up(&mut self, line: u64) {
        self.looked_up = self.looked_up.saturating_add(1);
        let Streams { counts, open, .. } = self;
        let at = open.continued(line).unwrap_or_else(|| {
            let (oldest, ended) = open.take_oldest();
            counts.end(&ended);
            oldest
        });
        open.change(at, self.looked_up, |stream| {
            if stream.accesses > 0 && stream.last == line {
                // Consecutive accesses to one line are one step of the line's stream.
                counts.repeated = counts.repeated.saturating_add(1);
            } else {
                counts.follow(stream, line, LINE_LOG2);
            }
        });
    }

    /// Ends all streams, because it is not known whether the missing accesses have continued them.
    fn end_streams(&mut self) {
        self.gaps = self.gaps.wrapping_add(1);
        std::mem::take(&mut self.open).streams().iter().for_each(|stream| self.counts.end(stream));
    }

    /// The counts as if all open streams ended here.
    fn ended(&self) -> Counts {
        let mut counts = self.counts.clone();
        self.instructions.iter().for_each(|(_, stream)| counts.end(&stream));
        self.open.streams().iter().for_each(|stream| counts.end(stream));
        counts
    }

    fn hottest(&self, counts: &Counts) -> Vec<Stride> {
        let stride = |(stride, accesses)| Stride { stride_bytes: unfolded(stride), accesses };
        let mut strides: Vec<Stride> = counts.strides.iter().map(stride).collect();
        strides.sort_by_key(|stride| (std::cmp::Reverse(stride.accesses), stride.stride_bytes));
        strides.truncate(self.most);
        strides
    }
}

impl Analysis for Streams {
    type Result = Found;

    fn add(&mut self, batch: &Batch<'_>) {
        self.counts.accesses = self.counts.accesses.saturating_add(batch.len() as u64);
        match batch.instructions() {
            Some(instructions) => {
                for (address, instruction) in batch.addresses().iter().zip(instructions) {
                    let stream = self.instructions.entry(key(*instruction, batch.thread()));
                    if stream.used != self.gaps {
                        // The stream ended at a gap, and is counted only now, because counting all
                        // streams at each gap would take too long.
                        self.counts.end(stream);
                        *stream = Stream { used: self.gaps, ..Stream::default() };
                    }
                    self.counts.follow(stream, *address, 0);
                }
            }
            None => {
                batch.addresses().iter().for_each(|address| self.look_up(address >> LINE_LOG2));
            }
        }
    }

    fn gap(&mut self, _: &Gap) {
        self.end_streams();
    }

    fn restart(&mut self) {
        self.end_streams();
    }

    fn append(&mut self, later: Self) {
        let counts = self.ended();
        let before = std::mem::replace(self, later);
        self.looked_up = self.looked_up.saturating_add(before.looked_up);
        self.most = before.most;
        self.counts.merge(&counts);
    }

    fn merge(&mut self, other: Self) {
        self.counts.merge(&other.ended());
        self.looked_up = self.looked_up.saturating_add(other.looked_up);
    }

    fn result(&self) -> Found {
        let counts = self.ended();
        let lengths =
            counts.lengths.counts().iter().enumerate().filter(|(_, streams)| **streams > 0);
        let accesses = counts.accesses;
        Found {
            by_instruction: self.looked_up == 0,
            accesses,
            stream_accesses: counts.in_streams,
            repeated_accesses: counts.repeated,
            stream_share: (accesses > 0).then(|| counts.in_streams as f64 / accesses as f64),
            strides: self.hottest(&counts),
            other_strides: counts.other_strides,
            stream_lengths: lengths
                .map(|(bucket, streams)| {
                    let (at_least, at_most) = limits(bucket);
                    Lengths { at_least: at_least.max(3), at_most, streams: *streams }
                })
                .collect(),
        }
    }
}
