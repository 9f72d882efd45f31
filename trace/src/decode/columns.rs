//! Decodes data frames into columns of accesses: one vector each for clocks, addresses and
//! directions.
//!
//! A frame that holds only 32-bit records (halves) is decoded without a branch for each record.
//! This is several times faster than one item for each access. Invariant: all columns have the same
//! length, and row N is the N-th access of the frame's block. A frame with other records is
//! refused, and is decoded one event at a time instead.

use hmtt_format::frame::{MAX_WORDS, SYNC_WORDS, Sync, WORD_BYTES};
use hmtt_format::record::{
    DELTA_AT, EMPTY_HALF, ESCAPE, MAX_SEGMENT_SKIP, MAX_SKIP, NUMBER_BITS, SEGMENT_AT,
    SEGMENT_BITS, SEGMENT_FLAG_AT, WRITE_AT,
};
use hmtt_format::{Access, Cycles, Direction, PhysAddr, Tally};

/// Accesses as columns: three vectors of the same length, one row for each access.
///
/// ```
/// use hmtt::decode::Columns;
/// use hmtt_format::{Access, Cycles, Direction, PhysAddr};
///
/// let access = Access { clock: Cycles(22), direction: Direction::Write, address: PhysAddr(0x1234_8140) };
/// let mut columns = Columns::default();
/// columns.push(access);
/// assert_eq!((&columns.addresses[..], &columns.writes[..]), (&[0x1234_8140][..], &[true][..]));
/// assert_eq!(columns.get(0), Some(access));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Clocks in DDR clock cycles since the session began, extended to 64 bits.
    pub clocks: Vec<u64>,
    /// Physical byte addresses: the first byte of each line or burst.
    pub addresses: Vec<u64>,
    /// `true` for a WRITE, `false` for a READ.
    pub writes: Vec<bool>,
}

/// Borrowed columns of accesses. If their lengths differ, the shortest determines the number of
/// accesses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accesses<'a> {
    /// Clocks in DDR clock cycles since the session began.
    pub clocks: &'a [u64],
    /// Physical byte addresses: the first byte of each line or burst.
    pub addresses: &'a [u64],
    /// `true` for a WRITE, `false` for a READ.
    pub writes: &'a [bool],
}

impl Accesses<'_> {
    /// The accesses after the first `count` accesses; empty if there are at most `count` accesses.
    pub fn after(self, count: usize) -> Self {
        Accesses {
            clocks: self.clocks.get(count..).unwrap_or_default(),
            addresses: self.addresses.get(count..).unwrap_or_default(),
            writes: self.writes.get(count..).unwrap_or_default(),
        }
    }

    /// Whether there are no accesses.
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
/// Number of halves that are searched for skips together.
const CHUNK_HALVES: usize = 32;
const SYNC_BYTES: usize = SYNC_WORDS as usize * WORD_BYTES;
/// Maximum number of halves in a frame, rounded up to a power of two so that a masked index needs
/// no bounds check.
const CAPACITY: usize = (MAX_WORDS as usize * 2).next_power_of_two();

impl Columns {
    /// Number of accesses.
    pub fn len(&self) -> usize {
        self.clocks.len()
    }

    /// Whether there are no accesses.
    pub fn is_empty(&self) -> bool {
        self.clocks.is_empty()
    }

    /// Removes all accesses; the vectors keep their capacity.
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

    /// The access of a row, from 0; `None` beyond the last row.
    pub fn get(&self, row: usize) -> Option<Access> {
        Some(Access {
            clock: Cycles(*self.clocks.get(row)?),
            direction: Direction::from_bit(*self.writes.get(row)?),
            address: PhysAddr(*self.addresses.get(row)?),
        })
    }

    /// Appends the accesses of a data frame. `words`: the frame's big-endian 64-bit words,
    /// beginning with the sync; `clock`: the extended clock of the sync. Returns `None` and appends
    /// nothing if the frame holds any record that is not a half.
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

/// The decoded rows of one frame, and the decoder's state (clock, segment) after them.
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

    /// Decodes a half that may be an access, a skip or a segment, without a branch, because the
    /// processor cannot predict which halves are skips. Each half is written as if it were an
    /// access; if it is not, the next half overwrites its row.
    #[inline]
    fn any(&mut self, half: u32) {
        // Mask of the bits that a half adds to the clock, indexed by escape bit and segment flag:
        // access, access, skip, segment.
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
