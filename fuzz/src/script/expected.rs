//! Computes the expected counts from the frames that a card sent and the frames that arrived.

use hmtt::decode::Counts;

/// A frame that a card sent.
pub struct Sent {
    /// The frame's bytes.
    pub frame: Vec<u8>,
    /// Accesses in the frame, accesses up to its end, and records lost before it; `None` for
    /// heartbeats.
    pub stated: Option<(u64, u64, u32)>,
}

/// Counts of one card whose frames were lost, copied or reordered, but never damaged.
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
    /// Computes the counts. `arrived`: indices of the sent frames in order of arrival, including
    /// copies.
    pub fn new(sent: &[Sent], arrived: &[usize], copies: u64) -> Self {
        let mut unique = arrived.to_vec();
        unique.sort_unstable();
        unique.dedup();
        let stated: Vec<_> = unique.iter().filter_map(|at| sent[*at].stated).collect();
        let (_, total, lost) = stated.last().copied().unwrap_or_default();
        let accesses = stated.iter().map(|(own, ..)| own).sum::<u64>();
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

    /// Converts the counts of a reader.
    pub fn from_counts(counts: &Counts) -> Self {
        let order = counts.order;
        Expected {
            frames: counts.frames,
            missing: order.missing_frames,
            duplicates: order.duplicate_frames,
            accesses: counts.accesses,
            lost_accesses: counts.lost_accesses + counts.accesses_before_start,
            lost_records: counts.card_lost_records,
            others: counts.malformed_frames
                + counts.foreign_frames
                + order.restarts
                + order.late_frames,
        }
    }
}
