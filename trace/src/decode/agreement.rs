//! Measures in bits how far a frame agrees with the frame before it.
//!
//! Two values of a field agree by n bits if a frame made up at random has a difference as small as
//! theirs with a chance of at most 2^-n. For example, the field of accesses is 40 bits wide: equal
//! values agree by 40 bits, values that differ by 370 agree by 30 bits, and values that differ by
//! half the range agree by 0 bits. The bits of independent fields are added.
//!
//! Invariant: for a frame made up at random, the sum of the three fields is at least [`CLOSE`] with
//! a chance of less than 2^-32, and at least [`CONFIRMED`] with a chance of less than 2^-68.

use hmtt_format::frame::{ACCESSES_MASK, Heartbeat, LOST_MASK, Sync};
use hmtt_format::record::CLOCK_MASK;

use super::counts_after::CountsAfter;

/// Minimum number of bits by which a card's frame agrees with the card's last frames, if at most a
/// few frames in between are missing.
const CLOSE: u32 = 40;
/// Minimum number of bits by which the two best fields of a card's frame agree, if the third field
/// is damaged.
const ONE_WRONG: u32 = 32;
/// Minimum number of bits by which frames confirm each other. A gigabit link carries 2^33 frames in
/// an hour and a half. If they are random, and each is compared with 16 others, any two of them
/// confirm each other with a chance of less than 2^-31.
pub const CONFIRMED: u32 = 80;
/// Minimum number of bits of a confirmation. Fewer bits are not added, because many random frames
/// together would reach any sum.
const LEAST: u32 = 12;

/// How far a sync agrees with the counts after another frame, in bits of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    accesses: u32,
    lost: u32,
    clock: u32,
}

/// Bits by which two values of a field agree. `mask`: the greatest value of the field.
fn bits(first: u64, second: u64, mask: u64) -> u32 {
    let ahead = first.wrapping_sub(second) & mask;
    let apart = ahead.min((mask + 1) - ahead);
    mask.count_ones().saturating_sub(u64::BITS - (2 * apart).leading_zeros())
}

impl Agreement {
    pub fn new(end: CountsAfter, sync: Sync) -> Self {
        Agreement {
            accesses: bits(end.accesses, sync.accesses, ACCESSES_MASK),
            lost: bits(end.lost.into(), sync.lost.into(), LOST_MASK.into()),
            clock: bits(end.clock, sync.clock, CLOCK_MASK),
        }
    }

    /// The agreement with a card that was just switched on.
    pub fn with_power_on(sync: Sync) -> Self {
        Agreement::new(CountsAfter::POWER_ON, sync)
    }

    pub fn bits(self) -> u32 {
        self.accesses + self.lost + self.clock
    }

    pub fn is_close(self) -> bool {
        self.bits() >= CLOSE
    }

    /// Whether the two best fields agree by at least [`ONE_WRONG`] bits.
    pub fn is_close_but_one(self) -> bool {
        self.bits() - self.accesses.min(self.lost).min(self.clock) >= ONE_WRONG
    }
}

/// Bits by which a frame with counts and the next one confirm each other: 0 if the counts decrease.
/// Counts of 0 confirm nothing: every card that has counted nothing states them, and so does a
/// frame filled with zeros. `end`, `sync`: as in [`Agreement::new`].
pub fn confirmation(end: CountsAfter, sync: Sync) -> u32 {
    let agreement = Agreement::new(end, sync);
    let accesses = sync.accesses.wrapping_sub(end.accesses) & ACCESSES_MASK;
    let lost = sync.lost.wrapping_sub(end.lost) & LOST_MASK;
    let bits = match (end.accesses, sync.accesses) {
        _ if accesses > ACCESSES_MASK / 2 || lost > LOST_MASK / 2 => 0,
        (0, 0) if end.clock == sync.clock => 0,
        (0, 0) => agreement.clock,
        _ => agreement.bits(),
    };
    if bits < LEAST { 0 } else { bits }
}

/// Bits by which a heartbeat and the next one confirm each other. Only the transmit clocks are
/// compared, because most heartbeats state no loss.
pub fn confirmation_of_heartbeats(heartbeat: Heartbeat, next: Heartbeat) -> u32 {
    let bits = bits(heartbeat.transmit_clocks, next.transmit_clocks, CLOCK_MASK);
    if bits < LEAST || heartbeat.transmit_clocks == next.transmit_clocks { 0 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_the_bits_of_its_chance() {
        // Of all values of a field of 8 bits, at most one in 2^n agrees by n bits or more.
        for least in 0..=8 {
            let near = (0..=255u64).filter(|other| bits(7, *other, 255) >= least).count();
            assert!(near <= 256 >> least, "{near} values count {least} bits");
        }
        assert_eq!([0, 1, 370, 1 << 38].map(|by| bits(9, 9 + by, ACCESSES_MASK)), [40, 38, 30, 0]);
        assert_eq!(bits(0, ACCESSES_MASK, ACCESSES_MASK), 38);
    }

    #[test]
    fn zeros_confirm_nothing() {
        let end = CountsAfter::POWER_ON;
        let zeros = Sync { clock: 0, unit_log2: 0, segment: 0, accesses: 0, lost: 0 };
        assert_eq!(confirmation(end, zeros), 0);
        assert_eq!(confirmation(end, Sync { clock: 1 << 20, ..zeros }), 26);
        assert_eq!(confirmation(end, Sync { clock: 1 << 40, ..zeros }), 0);
        assert_eq!(confirmation(end, Sync { accesses: 1, ..zeros }), 38 + 24 + 48);
    }

    #[test]
    fn counts_that_decrease_confirm_nothing() {
        let end = CountsAfter { accesses: 40, lost: 3, clock: 7, ..CountsAfter::POWER_ON };
        let next = Sync { clock: 7, unit_log2: 6, segment: 0, accesses: 40, lost: 3 };
        assert_eq!(confirmation(end, next), 112);
        assert_eq!(confirmation(end, Sync { accesses: 39, ..next }), 0);
        assert_eq!(confirmation(end, Sync { lost: 2, ..next }), 0);
    }
}
