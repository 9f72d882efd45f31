//! Records what a card has sent since a pending run began, and whether the run may be the card's.

use crate::decode::frame::Frame;
use crate::decode::sequence::FARTHEST_GAP;
use crate::decode::trace::Trace;

/// Frames of a card after which it is taken to continue beside a run that it could have sent: fewer could be frames sent
/// before the run that arrived after it.
const GOES_ON: u32 = 4;
/// Frames of a card after which a single pending frame with a counter or counts of that card is taken for a damaged one.
pub(super) const LONG_USED: u32 = 64;

/// What a card has sent since the first frame of a pending run arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CardActivity {
    /// Whether the run could be the card's after a long gap; if not, it could be after a restart.
    pub could_reach: bool,
    /// Whether that gap would be at most [`FARTHEST_GAP`] frames. No frame made up at random is so near.
    pub soon: bool,
    /// Whether the card could use the first frame's counter or counts next. Then the frame is more likely a damaged one of
    /// this card than one of another card.
    pub near: bool,
    /// Whether the card could use the first frame's counts next, but not its counter.
    pub misplaced: bool,
    /// Whether the first frame is misplaced, states exactly the counts after the card's last frame, and has a counter that
    /// one flipped bit explains.
    pub flipped: bool,
    /// Frames of the card since the run's first frame.
    pub frames: u32,
    /// Frames of the card since the run's second frame.
    pub frames_since_second: u32,
}

impl CardActivity {
    /// Compares the first frame of a run with a card's trace. Expensive checks are made only where they matter.
    pub fn new(trace: &Trace, frame: &Frame<'_>, bytes: &[u8]) -> Self {
        let counts_near = trace.are_counts_near(frame);
        let waited_for = trace.waits_for(frame, bytes);
        let misplaced = counts_near && !waited_for;
        let could_reach = trace.could_reach(frame, bytes);
        let missing = || trace.sequencer.missing_up_to(frame.counter);
        CardActivity {
            could_reach,
            soon: could_reach && missing().is_none_or(|missing| missing <= FARTHEST_GAP),
            near: counts_near || waited_for || trace.is_taken(frame, bytes),
            misplaced,
            flipped: misplaced && trace.is_flipped(frame) && trace.counts_exactly(frame),
            ..CardActivity::default()
        }
    }

    /// Whether the card continues beside the run, so that the run is not its own.
    pub fn is_active(&self) -> bool {
        match self.could_reach {
            true => self.frames >= GOES_ON || self.frames_since_second != 0,
            false => self.frames != 0,
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
