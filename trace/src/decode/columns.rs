//! Data frames to columns of accesses: clocks, addresses and directions, each in a vector of its own.
//!
//! Frames of nothing but halves take a path without a branch for each record, several times faster
//! than one item for each access. Invariant: all columns have the same length, and row for row they
//! are the accesses that the frame's block holds.

use hmtt_format::frame::{MAX_WORDS, SYNC_WORDS, Sync, WORD_BYTES};
use hmtt_format::record::{
    DELTA_AT, EMPTY_HALF, ESCAPE, MAX_SEGMENT_SKIP, MAX_SKIP, NUMBER_BITS, SEGMENT_AT,
    SEGMENT_BITS, SEGMENT_FLAG_AT, WRITE_AT,
};
use hmtt_format::{Access, Cycles, Direction, PhysAddr, Tally};

/// Accesses as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Clocks, extended beyond their wrap.
    pub clocks: Vec<u64>,
    /// Addresses of the first byte of the line or burst.
    pub addresses: Vec<u64>,
    /// Whether it was a WRITE.
    pub writes: Vec<bool>,
}

/// Accesses as columns of one length; the shortest counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accesses<'a> {
    /// When.
    pub clocks: &'a [u64],
    /// First byte of each.
    pub addresses: &'a [u64],
    /// Which of them are writes.
    pub writes: &'a [bool],
}

impl Accesses<'_> {
    /// The accesses after the first `count`.
    pub fn after(self, count: usize) -> Self {
        Accesses {
            clocks: self.clocks.get(count..).unwrap_or_default(),
            addresses: self.addresses.get(count..).unwrap_or_default(),
            writes: self.writes.get(count..).unwrap_or_default(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.clocks.is_empty() || self.addresses.is_empty() || self.writes.is_empty()
    }

    /// The accesses one by one.
    pub fn iter(&self) -> impl Iterator<Item = Access> {
        self.clocks.iter().zip(self.addresses).zip(self.writes).map(|((clock, address), write)| {
            Access {
                clock: Cycles(*clock),
                direction: Direction::from_bit(*write),
                address: PhysAddr(*address),
            }
        })
    }
}

const HALF_BYTES: usize = size_of::<u32>();
/// Halves that are looked through for skips at once.
const CHUNK_HALVES: usize = 32;
const SYNC_BYTES: usize = SYNC_WORDS as usize * WORD_BYTES;
/// Room for the halves of a frame; a power of two, so that a masked index needs no check.
const CAPACITY: usize = (MAX_WORDS as usize * 2).next_power_of_two();

impl Columns {
    /// Number of accesses.
    pub fn len(&self) -> usize {
        self.clocks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.clocks.is_empty()
    }

    /// Takes all accesses out; the vectors keep their memory.
    pub fn clear(&mut self) {
        self.clocks.clear();
        self.addresses.clear();
        self.writes.clear();
    }

    /// Appends one access.
    pub fn push(&mut self, access: Access) {
        self.clocks.push(access.clock.0);
        self.addresses.push(access.address.0);
        self.writes.push(access.direction == Direction::Write);
    }

    /// The access of a row.
    pub fn get(&self, row: usize) -> Option<Access> {
        Some(Access {
            clock: Cycles(*self.clocks.get(row)?),
            direction: Direction::from_bit(*self.writes.get(row)?),
            address: PhysAddr(*self.addresses.get(row)?),
        })
    }

    /// Appends the accesses of a data frame's `words`, sync first, whose sync has the extended clock
    /// `clock`. `None`, and nothing is appended, if the frame holds anything but halves.
    pub fn append(&mut self, words: &[u8], clock: Cycles) -> Option<Tally> {
        let tally = Tally::of_halves(words)?;
        let count = tally.accesses as usize;
        let (halves, _) = words.get(SYNC_BYTES..)?.as_chunks::<HALF_BYTES>();
        if halves.len() > CAPACITY {
            return None;
        }
        let mut frame = Rows::new(clock, tally.sync);
        frame.fill(halves);
        self.clocks.extend_from_slice(frame.clocks.get(..count)?);
        self.addresses.extend_from_slice(frame.addresses.get(..count)?);
        self.writes.extend_from_slice(frame.writes.get(..count)?);
        Some(tally)
    }
}

/// The rows of one frame, and where its halves have led.
struct Rows {
    clocks: [u64; CAPACITY],
    addresses: [u64; CAPACITY],
    writes: [bool; CAPACITY],
    row: usize,
    clock: u64,
    segment: u32,
    unit_log2: u8,
}

impl Rows {
    fn new(clock: Cycles, sync: Sync) -> Self {
        Rows {
            clocks: [0; CAPACITY],
            addresses: [0; CAPACITY],
            writes: [false; CAPACITY],
            row: 0,
            clock: clock.0,
            segment: sync.segment,
            unit_log2: sync.unit_log2,
        }
    }

    fn fill(&mut self, halves: &[[u8; HALF_BYTES]]) {
        for chunk in halves.chunks(CHUNK_HALVES) {
            let halves = || chunk.iter().map(|half| u32::from_be_bytes(*half));
            if halves().map(|half| u32::from(is_escape(half))).sum::<u32>() == 0 {
                halves().for_each(|half| self.access(half));
            } else {
                halves().for_each(|half| self.any(half));
            }
        }
    }

    #[inline]
    fn access(&mut self, half: u32) {
        self.clock += u64::from(half >> DELTA_AT & ESCAPE);
        self.write(half);
        self.row += 1;
    }

    /// Takes no branch: which halves are skips cannot be foretold. Each is written as if it were an
    /// access, and the next one overwrites it if it was none.
    #[inline]
    fn any(&mut self, half: u32) {
        // What a half that is an access, a skip or a segment adds to the clock.
        const CLOCKS: [u32; 4] = [0, 0, MAX_SKIP, MAX_SEGMENT_SKIP];
        const SEGMENT: u32 = (1 << SEGMENT_BITS) - 1;
        let delta = half >> DELTA_AT & ESCAPE;
        let escape = u32::from(is_escape(half));
        let flag = half >> SEGMENT_FLAG_AT & 1;
        let skipped = half & CLOCKS[(escape << 1 | flag) as usize];
        self.clock += u64::from((delta & escape.wrapping_sub(1)) + skipped);
        let changed = (escape & flag).wrapping_neg() & SEGMENT;
        self.segment = half >> SEGMENT_AT & changed | self.segment & !changed;
        self.write(half);
        self.row += 1 - escape as usize;
    }

    #[inline]
    fn write(&mut self, half: u32) {
        let number = half & ((1 << NUMBER_BITS) - 1);
        let number = u64::from(self.segment) << NUMBER_BITS | u64::from(number);
        let at = self.row % CAPACITY;
        self.clocks[at] = self.clock;
        self.addresses[at] = number << self.unit_log2;
        self.writes[at] = half >> WRITE_AT != 0;
    }
}

#[inline]
fn is_escape(half: u32) -> bool {
    half & EMPTY_HALF == EMPTY_HALF
}
