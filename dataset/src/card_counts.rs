//! Counts of a card in a capture, with the names of the table of runs.

use hmtt::decode::Counts;
use serde::{Deserialize, Serialize};

/// Counts of a card in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardCounts {
    /// Accesses that the card's records represent.
    pub accesses: u64,
    /// Accesses that are known to be missing.
    pub lost_accesses: u64,
    /// Accesses that the card saw before the first frame of the capture.
    pub accesses_before_start: u64,
    /// Records that the card lost.
    pub card_lost_records: u64,
    /// Frames that did not arrive.
    pub missing_frames: u64,
    /// Frames that could not be read.
    pub malformed_frames: u64,
    /// Number of gaps.
    pub gap_count: u64,
}

impl CardCounts {
    /// Adds the counts of another capture or card.
    pub fn add(&mut self, other: &CardCounts) {
        let pairs = [
            (&mut self.accesses, other.accesses),
            (&mut self.lost_accesses, other.lost_accesses),
            (&mut self.accesses_before_start, other.accesses_before_start),
            (&mut self.card_lost_records, other.card_lost_records),
            (&mut self.missing_frames, other.missing_frames),
            (&mut self.malformed_frames, other.malformed_frames),
            (&mut self.gap_count, other.gap_count),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// Converts the counts to the type that decoders return. `complete_tail`: whether the end of
    /// the card's trace is known.
    pub fn decoded(&self, complete_tail: bool) -> Counts {
        let mut counts = Counts {
            frames: 1,
            accesses: self.accesses,
            lost_accesses: self.lost_accesses,
            accesses_before_start: self.accesses_before_start,
            card_lost_records: self.card_lost_records,
            malformed_frames: self.malformed_frames,
            gap_count: self.gap_count,
            complete_tail,
            ..Counts::default()
        };
        counts.order.missing_frames = self.missing_frames;
        counts
    }

    /// Calls `compare` with the name of each count, its value for this card, and its value in
    /// `other`.
    pub fn compare(&self, other: &CardCounts, mut compare: impl FnMut(&'static str, u64, u64)) {
        compare("accesses", self.accesses, other.accesses);
        compare("lost_accesses", self.lost_accesses, other.lost_accesses);
        compare("accesses_before_start", self.accesses_before_start, other.accesses_before_start);
        compare("card_lost_records", self.card_lost_records, other.card_lost_records);
        compare("missing_frames", self.missing_frames, other.missing_frames);
        compare("malformed_frames", self.malformed_frames, other.malformed_frames);
        compare("gap_count", self.gap_count, other.gap_count);
    }
}

impl From<&Counts> for CardCounts {
    fn from(counts: &Counts) -> Self {
        CardCounts {
            accesses: counts.accesses,
            lost_accesses: counts.lost_accesses,
            accesses_before_start: counts.accesses_before_start,
            card_lost_records: counts.card_lost_records,
            missing_frames: counts.order.missing_frames,
            malformed_frames: counts.malformed_frames,
            gap_count: counts.gap_count,
        }
    }
}
