//! Frames that go on from no card's trace, until they show whose they are.

use hmtt_format::frame::{FrameKind, Sync};

use crate::decode::fit::Fit;
use crate::decode::frame::{Frame, Origin};
use crate::decode::item::Counted;
use crate::decode::trace::Trace;

/// Most frames that wait: as many as a card may send before another frame of the same wire is late.
const MAX_FRAMES: usize = 64;
/// Frames after which a card is believed to go on, where reordering could bring the frames that wait
/// before its last ones.
const GOES_ON: u32 = 4;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub origin: Origin,
    pub bytes: Vec<u8>,
    /// Its place among all frames of the wire.
    pub serial: u64,
}

/// A string of frames that go on from each other.
#[derive(Debug)]
pub(super) struct Held {
    frames: Vec<Waiting>,
    /// They alone, counted: what further frames are compared with.
    trace: Trace,
    cards: Vec<Seen>,
    /// The first frame could be that of several cards that lost frames.
    fits_several: bool,
    /// What the first frame says of what was before it.
    opening: Sync,
}

/// What was seen of a card since.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The frames could be its own after a long gap; if not, after a restart.
    could_reach: bool,
    /// The counter is one the card could be about to use, or the counts are: a damaged frame, more
    /// likely than a card.
    near: bool,
    /// The counts are such as well, and the counter is not.
    misplaced: bool,
    /// The counts are those that were reached, so nothing was lost before it, and one flipped bit would explain the
    /// counter.
    flipped: bool,
    /// Its frames since the first one.
    frames: u32,
    /// Its frames since the second one.
    frames_since_second: u32,
}

impl Seen {
    fn new(trace: &Trace, frame: &Frame<'_>, bytes: &[u8]) -> Self {
        let could_reach = trace.could_reach(frame, bytes);
        let misplaced = trace.is_misplaced(frame, bytes);
        let near = trace.is_near(frame, bytes);
        let flipped = trace.is_flipped(frame) && trace.counts_exactly(frame);
        Seen { could_reach, near, misplaced, flipped, ..Seen::default() }
    }

    /// Whether the card goes on beside the frames.
    fn goes_on(&self) -> bool {
        match self.could_reach {
            true => self.frames >= GOES_ON || self.frames_since_second != 0,
            false => self.frames != 0,
        }
    }
}

impl Held {
    /// `serial`: the place of the frame among all frames of the wire.
    pub fn new(
        cards: &[Trace],
        origin: Origin,
        bytes: &[u8],
        frame: &Frame<'_>,
        serial: u64,
    ) -> Self {
        let sync = frame.body.ok().and_then(|body| body.sync());
        let near = |trace: &&Trace| trace.fit(frame, bytes).is_some_and(Fit::goes_on);
        let mut held = Held {
            frames: Vec::new(),
            trace: Trace::default(),
            cards: cards.iter().map(|trace| Seen::new(trace, frame, bytes)).collect(),
            fits_several: cards.iter().filter(near).count() > 1,
            opening: sync.unwrap_or_default(),
        };
        held.push(origin, bytes, frame, serial);
        held
    }

    /// Takes a frame that goes on from the others.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], frame: &Frame<'_>, serial: u64) {
        self.frames.push(Waiting { origin, bytes: bytes.to_vec(), serial });
        self.trace.frame(origin, bytes, frame, &mut Counted(|_| {}));
    }

    /// A card has taken other frames that waited: they may be what these go on from, or have come
    /// beside them.
    pub fn reconsider(&mut self, card: usize, trace: &Trace, taken: &Held) {
        let Some(first) = self.frames.first() else { return };
        let Some(frame) = Frame::parse(&first.bytes) else { return };
        let since = |at: usize| {
            let serial = self.frames.get(at).map_or(u64::MAX, |frame| frame.serial);
            taken.frames.iter().filter(|frame| frame.serial > serial).count() as u32
        };
        let mut seen = Seen::new(trace, &frame, &first.bytes);
        (seen.frames, seen.frames_since_second) = (since(0), since(1));
        match self.cards.get_mut(card) {
            Some(before) => *before = seen,
            None => self.cards.push(seen),
        }
    }

    /// Whether the first of these frames has a place that a card's trace waits for.
    pub fn fills_place(&self, trace: &Trace) -> bool {
        self.is_first(|frame, bytes| trace.waits_for(frame, bytes))
    }

    /// Whether a card would leave out these frames as late, though they are not of its past.
    pub fn is_falsely_late(&self, trace: &Trace, was_new: bool) -> bool {
        let more = was_new && self.frames.len() > 1;
        self.is_first(|frame, bytes| trace.is_late(frame, bytes) && (more || !trace.is_past(frame)))
    }

    fn is_first(&self, is: impl Fn(&Frame<'_>, &[u8]) -> bool) -> bool {
        let first = self.frames.first().map(|first| &first.bytes[..]);
        first.is_some_and(|bytes| Frame::parse(bytes).is_some_and(|frame| is(&frame, bytes)))
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub fn frames(&self) -> &[Waiting] {
        &self.frames
    }

    pub fn opening(&self) -> Sync {
        self.opening
    }

    pub fn is_full(&self) -> bool {
        self.frames.len() >= MAX_FRAMES
    }

    /// Whether a card has sent nothing since the first of these frames.
    pub fn is_silent(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|seen| seen.frames == 0)
    }

    /// The card that has gone on, at least by so many frames, beside a frame alone that has a counter or
    /// counts of its own: a damaged one.
    fn left_behind(&self, frames: u32) -> Option<usize> {
        let used = |seen: &Seen| seen.near && seen.frames >= frames;
        self.cards.iter().position(used).filter(|_| self.frames.len() == 1)
    }

    /// The card whose damaged frame this is, because the card has long used its counter and counts.
    /// `all`: no more frames come, so that a report out of place can be left out, which has no accesses,
    /// if one flipped bit explains it: else many frames are missing before it.
    pub fn strayed_from(&self, all: bool) -> Option<usize> {
        let is_report = |frame: &Frame<'_>, _: &[u8]| {
            matches!(frame.kind(), Some(FrameKind::Info | FrameKind::End))
        };
        match all {
            true => self.left_behind(1).or_else(|| {
                let card = self.cards.iter().position(|seen| seen.misplaced && seen.flipped);
                card.filter(|card| self.is_misplaced(*card) && self.is_first(is_report))
            }),
            false => self.left_behind(MAX_FRAMES as u32),
        }
    }

    /// Whether this is a frame alone that could be a card's, damaged.
    pub fn is_suspect(&self, card: usize) -> bool {
        self.frames.len() == 1 && self.cards.get(card).is_some_and(|seen| seen.near)
    }

    /// Whether this is a frame alone that only lacks the right counter to be a card's.
    pub fn is_misplaced(&self, card: usize) -> bool {
        self.frames.len() == 1 && self.cards.get(card).is_some_and(|seen| seen.misplaced)
    }

    /// Takes note of a frame of a card.
    pub fn card_goes_on(&mut self, card: usize) {
        // Cards that appeared since are not what these frames go on from.
        let Some(seen) = self.cards.get_mut(card) else { return };
        seen.frames = seen.frames.saturating_add(1);
        let more = u32::from(self.frames.len() > 1);
        seen.frames_since_second = seen.frames_since_second.saturating_add(more);
    }

    /// Whether all cards go on beside the frames, so that they are another one's.
    pub fn is_card(&self) -> bool {
        let alone = self.frames.len() == 1 && self.cards.iter().any(|seen| seen.near);
        !alone && self.cards.iter().all(Seen::goes_on)
    }

    /// Of several cards that the frames could be of, the one that is: they follow its newest frame, or
    /// all others go on.
    pub fn found(&self, cards: &[Trace]) -> Option<usize> {
        if !self.fits_several {
            return None;
        }
        let first = self.frames.first()?;
        let frame = Frame::parse(&first.bytes)?;
        let next = |trace: &Trace| matches!(trace.fit(&frame, &first.bytes), Some(Fit::Next(_)));
        let mut left = self.cards.iter().enumerate().filter(|(_, seen)| !seen.goes_on());
        let left = left.next().filter(|(_, seen)| seen.could_reach && left.next().is_none());
        cards.iter().position(next).or(left.map(|(card, _)| card))
    }

    /// Whether all these frames came before those.
    pub fn is_before(&self, other: &Held) -> bool {
        let (last, first) = (self.frames.last(), other.frames.first());
        last.zip(first).is_some_and(|(last, first)| last.serial < first.serial)
    }

    /// The card that the frames seem to go on from: a silent one that could have lost frames, or the
    /// one whose counter a frame alone has, or a silent one, best that with the last frame.
    pub fn parent(&self, last: usize) -> Option<usize> {
        let seen = |at: &usize| self.cards.get(*at).copied().unwrap_or_default();
        let silent = |at: &usize| self.cards.get(*at).is_some_and(|seen| !seen.goes_on());
        let all = || 0..self.cards.len();
        let alone = self.frames.len() == 1;
        all()
            .filter(|at| silent(at) && seen(at).could_reach)
            .min_by_key(|at| seen(at).frames)
            .or(all().find(|at| alone && seen(at).near))
            .or(Some(last).filter(silent))
            .or(all().find(silent))
    }
}
