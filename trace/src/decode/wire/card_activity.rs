//! Records what a card has sent since a pending run began, and whether the run may be the card's.

use super::power_on::BesidePowerOn;
use crate::decode::compare::Comparison;
use crate::decode::evidence::{Damage, Likeness, Reach};

/// Frames of a card after which it is taken to continue beside a run of one frame that it could
/// have sent: fewer could be frames sent before the run that arrived after it, by more than the
/// window.
const GOES_ON: u32 = 4;
/// Frames of a card after which a single pending frame with a counter or counts of that card is
/// taken for a damaged one.
pub(super) const LONG_USED: u32 = 64;

/// What a card has sent since the first frame of a pending run arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardActivity {
    /// Whether the run could be the card's after a gap; if not, it could be after a restart.
    pub reach: Reach,
    /// What must be damaged in the first frame if the card sent it.
    pub damage: Damage,
    /// How far the first frame that has counts, or the first frame, agrees with the card's last
    /// frames.
    pub likeness: Likeness,
    /// Frames of the card since the run's first frame.
    pub frames: u32,
    /// Those of `frames` that the card cannot have sent before the run
    /// ([`super::pending_run::PendingRun::is_sent_after`]).
    pub frames_beside: u32,
    /// Those of `frames_beside` that came since the run's second frame.
    pub beside_since_second: u32,
    /// What `frames_beside` show if the run begins as a card does that was switched on.
    pub power_on: BesidePowerOn,
}

impl CardActivity {
    /// `first`: the first frame of a run, compared with a card's trace.
    pub fn new(first: &Comparison) -> Self {
        CardActivity {
            reach: first.reach(),
            damage: first.damage(),
            likeness: first.likeness(),
            frames: 0,
            frames_beside: 0,
            beside_since_second: 0,
            power_on: BesidePowerOn::new(first.newest),
        }
    }

    /// Notes how the run's first frame with counts compares with the card's trace: heartbeats
    /// before it state no counts.
    pub fn note_first_counts(&mut self, first: &Comparison) {
        self.likeness = first.likeness();
        if first.reach() == Reach::No {
            self.reach = Reach::No;
        }
    }

    /// Whether the card could use the first frame's counter or counts next. Then the frame is more
    /// likely a damaged one of this card than one of another card.
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
            Reach::No => self.frames_beside != 0,
            Reach::Soon | Reach::LongGap => {
                self.frames_beside >= GOES_ON || self.beside_since_second != 0
            }
        }
    }

    /// Counts a frame of the card. `run`: the number of frames of the run; `beside`: whether the
    /// card cannot have sent the frame before the run. Returns whether the run may be decided now.
    pub fn note(&mut self, counter: u64, run: usize, beside: bool) -> bool {
        let continues = beside && self.power_on.note(counter, run, self.frames);
        self.frames = self.frames.saturating_add(1);
        self.frames_beside = self.frames_beside.saturating_add(beside.into());
        let more = u32::from(beside && run != 1);
        self.beside_since_second = self.beside_since_second.saturating_add(more);
        let decides = |frames: u32| [1, GOES_ON, LONG_USED].contains(&frames);
        continues
            || more == 1 && self.beside_since_second == 1
            || decides(self.frames)
            || beside && decides(self.frames_beside)
    }
}
