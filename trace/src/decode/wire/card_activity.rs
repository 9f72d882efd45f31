//! Counts the frames that a card has sent since a pending run began, and records whether the run
//! may be the card's.

use super::power_on::BesidePowerOn;
use crate::decode::compare::Comparison;
use crate::decode::evidence::{Damage, Likeness, Reach};

/// Number of a card's frames after which the card is taken to send beside a run, if the run has one
/// frame and could continue the card after a gap. Fewer frames could have been sent before the run
/// and have arrived after it, later than the window allows.
const GOES_ON: u32 = 4;
/// Number of frames of a card after which a single pending frame that states the card's counter or
/// counts is taken for a damaged frame of the card.
pub(super) const LONG_USED: u32 = 64;

/// Frames that a card has sent since the first frame of a pending run arrived, and the run's
/// relation to the card.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardActivity {
    /// Whether the run could be the card's after a gap; if not, it could be after a restart.
    pub reach: Reach,
    /// What must be damaged in the first frame if the card sent it.
    pub damage: Damage,
    /// How far the run's first frame with counts agrees with the card's last frames; as long as the
    /// run has no counts, how far its first frame agrees.
    pub likeness: Likeness,
    /// Frames of the card since the run's first frame.
    pub frames: u32,
    /// Number of these `frames` that the card cannot have sent before the run
    /// ([`super::pending_run::PendingRun::is_sent_after`]).
    pub frames_beside: u32,
    /// Number of frames among `frames_beside` that arrived after the run's second frame.
    pub beside_since_second: u32,
    /// Evaluation of `frames_beside` for a run that begins like a card that was just switched on.
    pub power_on: BesidePowerOn,
}

impl CardActivity {
    /// `first`: the comparison of a run's first frame with the card's trace.
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

    /// Whether the card could use the first frame's counter or counts next. If so, the frame is
    /// more likely a damaged frame of this card than a frame of another card.
    pub fn is_near(&self) -> bool {
        self.damage != Damage::No
    }

    /// Whether the card could use the first frame's counts next, but not its counter.
    pub fn is_misplaced(&self) -> bool {
        matches!(self.damage, Damage::Counter | Damage::CounterBit)
    }

    /// Whether the card still sends beside the run, so that the run is not the card's.
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
