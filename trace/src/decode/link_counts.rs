//! Defines the counts of the cards on one link, or on all links of a capture.

use super::counts::Counts;
use crate::identity::LinkId;

/// The counts of one card of a capture, and its link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardCounts {
    /// The link of the card, as in [`Origin::link`](super::Origin::link).
    pub link: LinkId,
    /// The counts of the card.
    pub counts: Counts,
}

/// The counts of the cards on a link, or on all links of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// The counts of each card, by card number.
    pub cards: Vec<CardCounts>,
    /// Frames that no card sent, strays included.
    pub foreign_frames: u64,
    /// Frames with a card's addresses that continue no card's frames.
    pub stray_frames: u64,
}

impl LinkCounts {
    /// The counts of all cards together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts {
            foreign_frames: self.foreign_frames,
            stray_frames: self.stray_frames,
            ..Counts::default()
        };
        self.cards.iter().for_each(|card| sum.add(&card.counts));
        sum
    }
}
