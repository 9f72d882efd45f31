//! Defines the counts of a wire.

use crate::decode::counts::Counts;

/// The counts of the cards on a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// The counts of each card, by card number.
    pub cards: Vec<Counts>,
    /// Frames that no card sent, strays included.
    pub foreign_frames: u64,
    /// Frames with a card's addresses that continue no card's frames.
    pub stray_frames: u64,
}

impl WireCounts {
    /// The counts of all cards together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts {
            foreign_frames: self.foreign_frames,
            stray_frames: self.stray_frames,
            ..Counts::default()
        };
        self.cards.iter().for_each(|card| sum.add(card));
        sum
    }
}
