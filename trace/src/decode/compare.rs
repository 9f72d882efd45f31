//! Compares a frame with a card's trace and states the result as [`Evidence`].

use hmtt_format::frame::{COUNTER_MASK, FrameKind, Sync};
use hmtt_format::record::CLOCK_MASK;

use super::agreement::Agreement;
use super::arrival::Arrival;
use super::card_trace::CardTrace;
use super::counts_after::{CLOCK_SLACK, CountsAfter, FrameSummary, apart};
use super::evidence::{
    After, Before, Clock, Counter, DAMAGE, Damage, Distance, Evidence, Fit, Kind, Likeness, Next,
    Position, REACH, Reach,
};
use super::frame::Frame;
use super::sequence::{FARTHEST_GAP, FIRST_FRAMES, Place, WINDOW};

/// Maximum number of accesses by which a frame with a wrong counter may be ahead of its card.
const NEAR_ACCESSES: u64 = 1 << 24;
/// Maximum number of lost records by which a frame with a wrong counter may be ahead of its card.
const NEAR_LOST: u32 = 1 << 16;

/// The best agreement of a sync with the counts after the last frames.
fn likeness(sync: Sync, bases: &Bases) -> Likeness {
    let agreements = bases.iter().flatten().map(|(end, _)| Agreement::new(*end, sync));
    let likeness = agreements.map(|agreement| match agreement {
        agreement if agreement.is_close() => Likeness::Close,
        agreement if agreement.is_close_but_one() => Likeness::OneWrong,
        _ => Likeness::Random,
    });
    likeness.max().unwrap_or(Likeness::Random)
}

/// The comparison of a frame with a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub position: Position,
    pub evidence: Evidence,
    /// How well the frame fits; `None` if it does not continue the trace.
    pub fit: Option<Fit>,
    /// The highest counter of the trace's readable frames, modulo 2^40.
    pub newest: u64,
}

impl Comparison {
    /// Whether the frame shows that the card of the trace still sends.
    pub fn continues(&self) -> bool {
        self.fit.is_some_and(Fit::continues)
    }

    /// Whether the frame could continue the trace after a gap.
    pub fn reach(&self) -> Reach {
        REACH.decide(&self.evidence)
    }

    /// How far the counts and the clock of the frame agree with the counts and the clock after the
    /// last frames. A heartbeat has no counts. Its likeness is [`Likeness::OneWrong`], because a
    /// random frame hardly has the fixed bits of a heartbeat.
    pub fn likeness(&self) -> Likeness {
        match self.evidence.kind {
            Kind::FirstReport => Likeness::Close,
            Kind::Heartbeat => Likeness::OneWrong,
            Kind::Data | Kind::Report | Kind::Unreadable => self.evidence.likeness,
        }
    }

    /// What must be damaged in the frame if the trace's card sent it.
    pub fn damage(&self) -> Damage {
        DAMAGE.decide(&self.evidence)
    }

    /// Whether the frame states exactly the counts after the last frame, whatever its counter.
    pub fn counts_exactly(&self) -> bool {
        matches!(self.evidence.next, Next::ExactOnly | Next::Exact | Next::FlippedBit)
    }

    /// Whether the frame has counts and is the next one: its counts are exactly those after the
    /// frame before, or it is the report with which the card begins to count again.
    pub fn follows_exactly(&self) -> bool {
        let is_exact = match self.evidence.kind {
            Kind::Data | Kind::Report => self.evidence.before == Before::Exact,
            Kind::FirstReport => true,
            Kind::Heartbeat | Kind::Unreadable => false,
        };
        is_exact && self.continues()
    }

    /// How well the frame fits a pending run of heartbeats, if it is the first frame with counts.
    /// In a card's trace such a frame waits until another frame confirms it.
    pub fn fit_after_heartbeats(&self) -> Option<Fit> {
        let Evidence { counter, before, after, .. } = self.evidence;
        let is_first = counter == Counter::Free && before == Before::First;
        let first = Fit::Near(WINDOW, 0);
        self.fit.or((is_first && after != After::Contradict).then_some(first))
    }

    /// Whether the card could use the counter next, and no frame that fits as well has arrived with
    /// this counter.
    pub fn is_awaited(&self) -> bool {
        matches!(self.evidence.counter, Counter::Free | Counter::Contested)
    }

    /// Whether the trace would drop the frame as late.
    pub fn is_late(&self) -> bool {
        self.evidence.counter == Counter::Late
    }

    /// Whether the trace would drop the frame as late although it is not from the trace's past.
    pub fn is_falsely_late(&self) -> bool {
        self.is_late() && self.evidence.before == Before::Contradict
    }
}

/// The counts after the last two frames that have counts, the latest first, each with the number of
/// unread frames after it.
type Bases = [Option<(CountsAfter, u64)>; 2];

/// Adds the counts after a frame as a base, if there is space. Then counts the frame as unread for
/// older bases, because the frame lies after older bases.
fn note(bases: &mut Bases, end: CountsAfter, unseen: &mut u64) {
    if let Some(free) = bases.iter_mut().find(|base| base.is_none()) {
        *free = Some((end, *unseen));
    }
    *unseen += 1;
}

impl CardTrace {
    /// Whether a frame is certainly the next one. This check is cheap, and enough for nearly all
    /// frames.
    pub(super) fn is_certain(&self, frame: &Frame<'_>) -> bool {
        let Some((kind, sync)) = frame.body.ok().and_then(|body| Some((body.kind, body.sync()?)))
        else {
            return false;
        };
        self.sequencer.is_in_order(frame.counter)
            && self.quarantine.is_empty()
            && self.decoder.reached.is_some_and(|reached| {
                let clock = reached.clock.0 & CLOCK_MASK;
                (reached.accesses, reached.lost) == (sync.accesses, sync.lost)
                    && (kind != FrameKind::Data || clock == sync.clock)
            })
    }

    /// How well a frame fits; `None` if it contradicts earlier frames or is too far ahead to
    /// decide.
    pub(super) fn fit(&self, arrival: &Arrival<'_>) -> Option<Fit> {
        // A frame whose counter is not close does not continue the trace, whatever else it states.
        let is_close = self.sequencer.is_close(arrival.frame.counter);
        is_close.then(|| self.compare(arrival).fit)?
    }

    /// Compares a frame with this trace.
    pub(super) fn compare(&self, arrival: &Arrival<'_>) -> Comparison {
        let position = self.position(arrival);
        let Position { place, counter } = position;
        let (kind, sync) = (self.kind(&arrival.frame, place), arrival.frame.sync());
        let latest = sync.map(|_| self.bases(self.sequencer.newest() + 1)).unwrap_or_default();
        let next = sync.map_or(Next::No, |sync| self.next(&arrival.frame, sync, counter, &latest));
        // The counter at which the frame could be put in order.
        let at = match (place, counter) {
            (Place::Ahead(at), _) | (Place::Taken(at), Counter::Contested) => Some(at),
            _ => None,
        };
        let (before, clock, distance) = match (at, sync) {
            (Some(at), Some(sync)) => self.before(at, sync, kind, &latest),
            (Some(at), None) => self.before_uncounted(at, &arrival.frame),
            (None, _) if counter == Counter::Late && !self.is_past(arrival) => {
                (Before::Contradict, Clock::Possible, Distance::default())
            }
            (None, _) => (Before::Unknown, Clock::Possible, Distance::default()),
        };
        let after = match (at, sync, counter) {
            (Some(at), Some(sync), Counter::Free | Counter::Contested) => {
                self.after(at, arrival, sync)
            }
            _ => After::Unknown,
        };
        let likeness = sync.map_or(Likeness::Random, |sync| likeness(sync, &latest));
        let evidence = Evidence { counter, kind, before, after, clock, next, likeness };
        let newest = self.sequencer.newest() & COUNTER_MASK;
        Comparison { position, evidence, fit: evidence.fit(distance), newest }
    }

    /// The place of a frame by its counter.
    pub(super) fn position(&self, arrival: &Arrival<'_>) -> Position {
        let frame = &arrival.frame;
        let place = self.sequencer.place(arrival);
        let soon = || {
            self.sequencer
                .missing_up_to(frame.counter)
                .is_none_or(|missing| missing <= FARTHEST_GAP)
        };
        let is_free =
            |at| self.sequencer.is_close(frame.counter) && self.sequencer.distance(at) < WINDOW;
        let counter = match place {
            Place::Ahead(at) if is_free(at) => Counter::Free,
            Place::Ahead(_) if soon() => Counter::Ahead,
            Place::Ahead(_) => Counter::FarAhead,
            Place::Taken(at) if self.has_better_claim(at, frame) => Counter::Contested,
            Place::Taken(_) => Counter::Taken,
            Place::Duplicate => Counter::Copy,
            Place::Late => Counter::Late,
            Place::Restart => Counter::Restart,
        };
        Position { place, counter }
    }

    /// The content of a frame. `place`: the place of the frame by its counter.
    fn kind(&self, frame: &Frame<'_>, place: Place) -> Kind {
        let Ok(body) = frame.body else { return Kind::Unreadable };
        match (body.kind, body.sync()) {
            (FrameKind::Info, Some(sync)) => {
                let reports_loss =
                    || self.quarantine.has_heartbeat() || self.holds_heartbeat(place);
                if self.decoder.restarts_counts(body.kind, sync, reports_loss) {
                    Kind::FirstReport
                } else {
                    Kind::Report
                }
            }
            (FrameKind::Info | FrameKind::End, _) => Kind::Report,
            (FrameKind::Heartbeat, _) => Kind::Heartbeat,
            (FrameKind::Data, _) => Kind::Data,
        }
    }

    /// Whether a heartbeat waits before this place, because an earlier frame is missing. The
    /// heartbeat may report that the DDR clock was lost.
    fn holds_heartbeat(&self, place: Place) -> bool {
        let Place::Ahead(at) = place else { return false };
        let mut held = self.sequencer.held_before(at);
        held.any(|(_, summary)| matches!(summary, FrameSummary::Heartbeat))
    }

    /// Compares the counts and the clock of a sync at the counter `at` with the counts and clocks
    /// at the ends of the two frames with counts before it. `latest`: the counts after the last
    /// frames.
    fn before(&self, at: u64, sync: Sync, kind: Kind, latest: &Bases) -> (Before, Clock, Distance) {
        // If `at` is after the newest frame, no frame waits at `at` or later, and `latest` holds
        // the bases.
        let bases = match at.checked_sub(self.sequencer.newest() + 1) {
            Some(more) => latest.map(|base| base.map(|(end, missing)| (end, missing + more))),
            None => self.bases(at),
        };
        let [Some((last, missing)), earlier] = bases else {
            // Only a later frame can confirm this one.
            return (Before::First, Clock::Possible, Distance { frames: WINDOW, clocks: 0 });
        };
        let distance = |base: CountsAfter, missing: u64| {
            let clocks = if kind == Kind::Data { apart(sync.clock, base.clock) } else { 0 };
            Distance { frames: missing + u64::from(base.damaged), clocks }
        };
        let before_last = match last.counts_to(sync, missing) {
            Some(_) if missing == 0 && last.is_exactly(sync) => Before::Exact,
            Some(_) => Before::Possible,
            None => Before::Contradict,
        };
        if last.leads_to(sync, missing).is_some() {
            return (before_last, Clock::Possible, distance(last, missing));
        }
        if let Some((base, missing)) = earlier
            && base.leads_to(sync, missing).is_some()
        {
            return (Before::PossibleEarlier, Clock::Possible, distance(base, missing));
        }
        let clock = if last.is_ahead_of(sync) { Clock::Behind } else { Clock::Possible };
        (before_last, clock, Distance::default())
    }

    /// Compares a frame without counts with the frames before the counter `at`.
    fn before_uncounted(&self, at: u64, frame: &Frame<'_>) -> (Before, Clock, Distance) {
        let Some(now) = frame.body.ok().and_then(|body| body.heartbeat()) else {
            let distance = Distance { frames: self.sequencer.distance(at), clocks: 0 };
            return (Before::Unknown, Clock::Possible, distance);
        };
        let before = self.decoder.heartbeat.transmit_clocks;
        let clocks = now.transmit_clocks.wrapping_sub(before) & CLOCK_MASK;
        let (before, missing) = match self.sequencer.missing_before(at) {
            None => (Before::First, WINDOW),
            Some(0) => (Before::Exact, 0),
            Some(missing) => (Before::Possible, missing),
        };
        if clocks > CLOCK_MASK / 2 {
            (before, Clock::Behind, Distance { frames: WINDOW, clocks })
        } else {
            (before, Clock::Possible, Distance { frames: missing, clocks })
        }
    }

    /// Compares a frame at the counter `at` with the frame that waits after it.
    fn after(&self, at: u64, arrival: &Arrival<'_>, sync: Sync) -> After {
        let Some((next, kept)) = self.sequencer.held_after(at).next() else {
            return After::Unknown;
        };
        let (Some((after, after_end)), Some((_, end))) =
            (kept.counts(), arrival.summary().counts())
        else {
            return After::Unknown;
        };
        match end.leads_to(after, next - at - 1) {
            Some((0, 0)) if next == at + 1 => After::Exact,
            Some(_) => After::Possible,
            // The counter of the waiting frame is wrong: it was sent before this frame.
            None if after_end.leads_to(sync, WINDOW).is_some() => After::Possible,
            None => After::Contradict,
        }
    }

    /// Whether the frame fills an empty place: the counts of the frame before lead to the counts of
    /// this frame, and these lead to the counts of the next frame that waits.
    pub(super) fn lies_between(&self, arrival: &Arrival<'_>) -> bool {
        let Position { place: Place::Ahead(at), counter: Counter::Free } = self.position(arrival)
        else {
            return false;
        };
        // Heartbeats have no counts.
        let counted =
            |(counter, kept): (u64, FrameSummary)| Some((kept.counts()?.0, counter - at - 1));
        let after = self.sequencer.held_after(at).find_map(counted);
        let (before, own) = (self.bases(at)[0], arrival.summary().counts());
        own.zip(before).zip(after).is_some_and(|(((sync, end), before), after)| {
            let (base, missing_before) = before;
            let (next, missing_after) = after;
            base.leads_to(sync, missing_before).is_some()
                && end.leads_to(next, missing_after).is_some()
        })
    }

    /// Compares a sync with the counts after the last frames, whatever the counter of its frame.
    fn next(&self, frame: &Frame<'_>, sync: Sync, counter: Counter, bases: &Bases) -> Next {
        let is_exact = bases[0].is_some_and(|(end, _)| end.is_exactly(sync));
        // A card that has counted nothing states the same as any card that restarts.
        let starts = sync.accesses == 0 && frame.counter < FIRST_FRAMES;
        let near = |(accesses, lost)| accesses <= NEAR_ACCESSES && lost <= NEAR_LOST;
        let is_near = !starts
            && bases.iter().flatten().any(|(end, missing)| {
                apart(sync.clock, end.clock) <= CLOCK_SLACK
                    && end.leads_to(sync, missing + WINDOW).is_some_and(near)
            });
        match (is_near, is_exact) {
            (true, true) if counter != Counter::Free && self.is_flipped(frame) => Next::FlippedBit,
            (true, true) => Next::Exact,
            (true, false) => Next::Near,
            (false, true) => Next::ExactOnly,
            (false, false) => Next::No,
        }
    }

    /// Whether the counter differs in one bit from the counter of a frame that arrived recently or
    /// could arrive next.
    fn is_flipped(&self, frame: &Frame<'_>) -> bool {
        let newest = self.sequencer.newest() & COUNTER_MASK;
        (0..COUNTER_MASK.count_ones()).map(|bit| frame.counter ^ 1 << bit).any(|counter| {
            let ahead = counter.wrapping_sub(newest) & COUNTER_MASK;
            let behind = newest.wrapping_sub(counter) & COUNTER_MASK;
            ahead.min(behind) <= WINDOW
        })
    }

    /// Whether a frame counts no more accesses than the frames that were decoded.
    fn is_past(&self, arrival: &Arrival<'_>) -> bool {
        let counts = arrival.summary().counts();
        let (Some((sync, end)), Some(reached)) = (counts, self.decoder.reached) else {
            return true;
        };
        end.is_past(reached.accesses, sync)
    }

    /// Whether a frame fits better at its counter than the waiting frame with the same counter,
    /// because the waiting frame cannot be read, contradicts the frames around it or could be a
    /// frame that is missing before this counter.
    fn has_better_claim(&self, counter: u64, frame: &Frame<'_>) -> bool {
        let Ok(body) = &frame.body else { return false };
        if let Some(FrameSummary::Unreadable) = self.sequencer.held_at(counter) {
            return true;
        }
        let Some((end, missing)) = self.bases(counter)[0] else { return false };
        let waiting = self.sequencer.held_at(counter).and_then(FrameSummary::counts);
        let Some(sync) = body.sync() else {
            let contradicts = |(other, _)| end.leads_to(other, missing).is_none();
            return body.heartbeat().is_some() && waiting.is_some_and(contradicts);
        };
        let Some(distance) = end.leads_to(sync, missing) else { return false };
        waiting.is_none_or(|(other, other_end)| {
            let other_distance = end.leads_to(other, missing);
            let is_before = missing != 0
                && apart(other_end.clock, sync.clock) <= CLOCK_SLACK
                && other_end.leads_to(sync, missing - 1).is_some();
            other_distance.is_none()
                || is_before
                || missing == 0 && distance == (0, 0) && other_distance != Some((0, 0))
        })
    }

    /// The bases for a frame at an unwrapped counter: from the waiting frames before the counter,
    /// then from the quarantine, then from the decoder.
    fn bases(&self, counter: u64) -> Bases {
        let (mut bases, mut unseen, mut reached_to) = ([None; 2], 0, counter);
        for (held, kept) in self.sequencer.held_before(counter) {
            unseen += reached_to - held - 1;
            reached_to = held;
            match kept {
                FrameSummary::Counts(_, end) => note(&mut bases, end, &mut unseen),
                FrameSummary::Heartbeat => {}
                FrameSummary::Unreadable => unseen += 1,
            }
            if bases[1].is_some() {
                return bases;
            }
        }
        unseen += reached_to.saturating_sub(self.sequencer.next());
        for (end, not_read) in self.quarantine.ends() {
            unseen += not_read;
            end.into_iter().for_each(|end| note(&mut bases, end, &mut unseen));
        }
        if let Some(reached) = self.decoder.reached {
            unseen += self.decoder.pending.frames + self.decoder.pending.malformed_frames;
            note(&mut bases, reached.into(), &mut unseen);
        }
        bases
    }
}
