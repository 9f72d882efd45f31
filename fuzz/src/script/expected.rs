//! What one card sent and what of it arrived to the counts that must come out.

use hmtt::decode::Counts;

/// A frame that a card sent.
pub struct Sent {
    /// Its bytes.
    pub frame: Vec<u8>,
    /// The accesses in it, those up to its end and the records lost before it; heartbeats tell nothing.
    pub told: Option<(u64, u64, u32)>,
}

/// Counts of one card whose frames were lost, copied or put in another order, but never damaged.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected {
    frames: u64,
    missing: u64,
    duplicates: u64,
    accesses: u64,
    lost_accesses: u64,
    lost_records: u64,
    others: u64,
}

impl Expected {
    /// `arrived`: which of the frames sent, in order of arrival, copies included.
    pub fn new(sent: &[Sent], arrived: &[usize], copies: u64) -> Self {
        let mut unique = arrived.to_vec();
        unique.sort_unstable();
        unique.dedup();
        let told: Vec<_> = unique.iter().filter_map(|at| sent[*at].told).collect();
        let (_, total, lost) = told.last().copied().unwrap_or_default();
        let accesses = told.iter().map(|(own, ..)| own).sum::<u64>();
        Expected {
            frames: arrived.len() as u64,
            missing: unique.last().map_or(0, |last| last + 1 - unique.len()) as u64,
            duplicates: copies,
            accesses,
            lost_accesses: total - accesses,
            lost_records: lost.into(),
            others: 0,
        }
    }

    /// What a reader counted.
    pub fn of(counts: &Counts) -> Self {
        let order = counts.order;
        Expected {
            frames: counts.frames,
            missing: order.missing,
            duplicates: order.duplicates,
            accesses: counts.accesses,
            lost_accesses: counts.lost_accesses + counts.accesses_before_start,
            lost_records: counts.card_lost_records,
            others: counts.malformed + counts.foreign + order.restarts + order.late,
        }
    }
}
