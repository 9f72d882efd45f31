//! Records what a card has sent since a pending run began, and whether the run may be the card's.

use crate::decode::compare::Comparison;
use crate::decode::evidence::{Damage, Likeness, Reach};

/// Frames of a card after which it is taken to continue beside a run that it could have sent: fewer could be frames sent
/// before the run that arrived after it.
const GOES_ON: u32 = 4;
/// Frames of a card after which a single pending frame with a counter or counts of that card is taken for a damaged one.
pub(super) const LONG_USED: u32 = 64;

/// What a card has sent since the first frame of a pending run arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardActivity {
    /// Whether the run could be the card's after a gap; if not, it could be after a restart.
    pub reach: Reach,
    /// What must be damaged in the first frame if the card sent it.
    pub damage: Damage,
    /// How far the first frame that has counts, or the first frame, agrees with the card's last frames.
    pub likeness: Likeness,
    /// Frames of the card since the run's first frame.
    pub frames: u32,
    /// Frames of the card since the run's second frame.
    pub frames_since_second: u32,
}

impl CardActivity {
    /// `first`: the first frame of a run, compared with a card's trace.
    pub fn new(first: &Comparison) -> Self {
        let (reach, damage) = (first.reach(), first.damage());
        let likeness = first.likeness();
        CardActivity { reach, damage, likeness, frames: 0, frames_since_second: 0 }
    }

    /// Notes how the run's first frame with counts compares with the card's trace: heartbeats before it state no counts.
    pub fn note_first_counts(&mut self, first: &Comparison) {
        self.likeness = first.likeness();
        if first.reach() == Reach::No {
            self.reach = Reach::No;
        }
    }

    /// Whether the card could use the first frame's counter or counts next. Then the frame is more likely a damaged one of
    /// this card than one of another card.
    pub fn is_near(&self) -> bool {
        self.damage != Damage::No
    }

    /// Whether the card could use the first frame's counts next, but not its counter.
    pub fn is_misplaced(&self) -> bool {
        matches!(self.damage, Damage::Counter | Damage::CounterBit)
    }

    /// Whether the card continues beside the run, so that the run is not its own.
    pub fn is_active(&self) -> bool {
        match self.reach {
            Reach::No => self.frames != 0,
            Reach::Soon | Reach::LongGap => self.frames >= GOES_ON || self.frames_since_second != 0,
        }
    }

    /// Counts a frame of the card. `alone`: whether the run has only one frame. Returns whether the run may be decided now.
    pub fn note(&mut self, alone: bool) -> bool {
        self.frames = self.frames.saturating_add(1);
        let more = u32::from(!alone);
        self.frames_since_second = self.frames_since_second.saturating_add(more);
        let is_first = !alone && self.frames_since_second == 1;
        is_first || [1, GOES_ON, LONG_USED].contains(&self.frames)
    }
}
