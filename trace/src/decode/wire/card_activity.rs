//! Frames that wait and a card to what was seen of the card since: whether they may be its own.

use crate::decode::frame::Frame;
use crate::decode::sequence::FARTHEST_GAP;
use crate::decode::trace::Trace;

/// Frames after which a card is believed to go on, where reordering could bring the frames that wait
/// before its last ones.
const GOES_ON: u32 = 4;
/// Frames of its card after which a frame alone, which has its counter or counts, is a damaged one.
pub(super) const LONG_USED: u32 = 64;

/// What was seen of a card since the first of some frames came that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CardActivity {
    /// The frames could be its own after a long gap; if not, after a restart.
    pub could_reach: bool,
    /// That gap would be of no more than [`FARTHEST_GAP`] frames: no frame made up at random is so near.
    pub soon: bool,
    /// The counter is one the card could be about to use, or the counts are: a damaged frame, more
    /// likely than a card.
    pub near: bool,
    /// The counts are such as well, and the counter is not.
    pub misplaced: bool,
    /// The counts are those that were reached, so nothing was lost before it, and one flipped bit would explain the
    /// counter.
    pub flipped: bool,
    /// Its frames since the first one.
    pub frames: u32,
    /// Its frames since the second one.
    pub frames_since_second: u32,
}

impl CardActivity {
    /// Of the first frame that waits. What is costly is asked only where it matters.
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

    /// Whether the card goes on beside the frames.
    pub fn is_active(&self) -> bool {
        match self.could_reach {
            true => self.frames >= GOES_ON || self.frames_since_second != 0,
            false => self.frames != 0,
        }
    }

    /// Takes note of a frame of the card. `alone`: only one frame waits. Whether that may settle
    /// something.
    pub fn note(&mut self, alone: bool) -> bool {
        self.frames = self.frames.saturating_add(1);
        let more = u32::from(!alone);
        self.frames_since_second = self.frames_since_second.saturating_add(more);
        let is_first = !alone && self.frames_since_second == 1;
        is_first || [1, GOES_ON, LONG_USED].contains(&self.frames)
    }
}
