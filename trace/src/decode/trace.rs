//! The frames of one card as captured to the items of their trace.
//!
//! Each frame decodes alone; what its sync says is compared with what the frames before it led to,
//! and every difference becomes a [`super::Gap`] placed between two clocks. Invariant: the accesses of a
//! session's items, of its gaps and before its start add up to the count in its last sync. Refuses
//! nothing: a frame that cannot be read becomes [`Item::Malformed`].

use hmtt_format::frame::{FrameKind, Sync};
use hmtt_format::{Cycles, Report};

use super::counts::Counts;
use super::decoder::Decoder;
use super::frame::{Frame, Origin};
use super::item::{Counted, Item, Items, Malformation, Sink};
use super::quarantine::Quarantine;
use super::sequence::{Order, Place, Sequencer};

/// Decodes the frames of one card as they come.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(super) sequencer: Sequencer,
    pub(super) quarantine: Quarantine,
    pub(super) decoder: Decoder,
    /// What was counted before frames that might have been another card's, and were not.
    before: Counts,
}

impl Trace {
    /// Takes the next captured frame; its items, or those of frames that waited for it, go to `sink`.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(Item)) {
        self.push_to(origin, bytes, &mut Items(sink));
    }

    /// Takes the next captured frame and counts its records; what else it has goes to `sink`. Much
    /// faster than [`Trace::push`]; end with [`Trace::finish_to`] and [`Counted`].
    pub fn count(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(Item)) {
        self.push_to(origin, bytes, &mut Counted(sink));
    }

    /// Takes the next captured frame; the sink says how it wants what is in it.
    pub fn push_to(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl Sink) {
        match Frame::parse(bytes) {
            Some(frame) => self.frame(origin, bytes, &frame, sink),
            None => self.decoder.counts.foreign += 1,
        }
    }

    /// Takes the next captured frame, which is what `bytes` hold.
    pub(super) fn frame(
        &mut self,
        origin: Origin,
        bytes: &[u8],
        frame: &Frame<'_>,
        sink: &mut impl Sink,
    ) {
        if self.is_certain(frame) {
            return self.certain(origin, bytes, frame, sink);
        }
        self.note(bytes, frame);
        if let Place::Taken(counter) = self.sequencer.place(frame, bytes)
            && self.has_better_claim(counter, frame)
            && let Some(evicted) = self.sequencer.evict(counter)
        {
            self.decoder.note_malformed(evicted, Malformation::Contradiction, sink);
        }
        let (quarantine, decoder) = (&mut self.quarantine, &mut self.decoder);
        self.sequencer.push(origin, bytes, frame, &mut |step| quarantine.step(step, decoder, sink));
    }

    /// Takes the next captured frame, which [is certain](Trace::is_certain).
    pub(super) fn certain(
        &mut self,
        origin: Origin,
        bytes: &[u8],
        frame: &Frame<'_>,
        sink: &mut impl Sink,
    ) {
        self.note(bytes, frame);
        let decoder = &mut self.decoder;
        self.sequencer.push(origin, bytes, frame, &mut |step| decoder.step(step, sink));
    }

    /// Takes a frame that has counts or a counter of this card, but does not fit: it is a copy, late or
    /// damaged.
    pub(super) fn stray(
        &mut self,
        origin: Origin,
        bytes: &[u8],
        frame: &Frame<'_>,
        sink: &mut impl Sink,
    ) {
        match self.sequencer.place(frame, bytes) {
            Place::Late | Place::Duplicate => self.frame(origin, bytes, frame, sink),
            Place::Ahead(_) | Place::Taken(_) | Place::Restart => {
                self.note(bytes, frame);
                self.decoder.note_malformed(origin, Malformation::Contradiction, sink);
            }
        }
    }

    fn note(&mut self, bytes: &[u8], frame: &Frame<'_>) {
        self.decoder.counts.frames += 1;
        self.decoder.counts.bytes += bytes.len() as u64;
        self.decoder.counts.ends += u64::from(frame.kind() == Some(FrameKind::End));
    }

    /// Goes on from what the card reported before the capture, which counts as nothing that came.
    pub fn continue_from(&mut self, report: Box<Report>, sink: &mut impl Sink) {
        self.decoder.note_report(&report);
        sink.item(Item::Report { clock: Cycles(0), end: false, report });
    }

    /// Times the card started to count anew.
    pub(super) fn restarts(&self) -> u64 {
        self.decoder.counts.order.restarts
    }

    /// Takes note of a frame of a session that is over: a copy, or one too late.
    pub(super) fn note_past(&mut self, bytes: &[u8], copy: bool) {
        self.decoder.counts.frames += 1;
        self.decoder.counts.bytes += bytes.len() as u64;
        let order = self.sequencer.order_mut();
        match copy {
            true => order.duplicates += 1,
            false => (order.reordered, order.late) = (order.reordered + 1, order.late + 1),
        }
    }

    /// Begins another session.
    pub(super) fn restart(&mut self, sink: &mut impl Sink) {
        let (quarantine, decoder) = (&mut self.quarantine, &mut self.decoder);
        self.sequencer.restart(&mut |step| quarantine.step(step, decoder, sink));
    }

    /// Whether no frame with counts was decoded yet.
    pub(super) fn is_new(&self) -> bool {
        self.decoder.reached.is_none()
    }

    /// Decodes what still waits; the session goes on.
    pub(super) fn flush(&mut self, sink: &mut impl Sink) {
        let (quarantine, decoder) = (&mut self.quarantine, &mut self.decoder);
        self.sequencer.finish(&mut |step| quarantine.step(step, decoder, sink));
        self.quarantine.finish(&mut self.decoder, sink);
    }

    /// Parts with what came so far, which comes back; this trace goes on from there, with a frame of
    /// this counter and with counts of its own.
    pub(super) fn split(&mut self, counter: u64, sink: &mut impl Sink) -> Trace {
        self.flush(sink);
        let goes_on = Trace {
            sequencer: self.sequencer.successor(counter),
            quarantine: Quarantine::default(),
            decoder: self.decoder.successor(),
            before: Counts::default(),
        };
        std::mem::replace(self, goes_on)
    }

    /// What [`Trace::split`] gave back was this card's: its counts come before those here.
    pub(super) fn prepend_counts(&mut self, mut earlier: Counts) {
        earlier.append(std::mem::take(&mut self.before));
        self.before = earlier;
    }

    /// Other frames that were taken for this card's count as such, though the trace does not go on from them.
    pub(super) fn append(&mut self, others: Counts) {
        self.before.append(others);
    }

    /// What [`Trace::split`] gave back has turned out to be another card's, and so has the restart or gap
    /// between. `opening`: what this card's first frame says of what was before it.
    pub(super) fn drop_predecessor(&mut self, restarted: bool, opening: Sync) {
        if self.before.frames != 0 {
            return self.before.drop_predecessor(restarted, opening);
        }
        let order = self.order();
        let counts = &mut self.decoder.counts;
        counts.order = order;
        counts.drop_predecessor(restarted, opening);
        *self.sequencer.order_mut() = counts.order;
    }

    /// Whether the last data frame of the session has been followed by an end frame.
    pub fn has_ended(&self) -> bool {
        self.sequencer.has_ended()
    }

    /// Frames so far.
    pub(super) fn frames(&self) -> u64 {
        self.before.frames.saturating_add(self.decoder.counts.frames)
    }

    /// The counts so far, with those of the order; frames that wait are not among them.
    pub fn counts_so_far(&self) -> Counts {
        let mut counts = self.before.clone();
        counts.append(Counts { order: self.order(), ..self.decoder.counts.clone() });
        counts
    }

    /// The counts so far of a trace that goes no further, frames that wait left out.
    pub(super) fn into_counts(self) -> Counts {
        let order = self.order();
        let mut counts = self.before;
        counts.append(Counts { order, ..self.decoder.counts });
        counts
    }

    fn order(&self) -> Order {
        let restarts = self.decoder.counts.order.restarts;
        Order { restarts, ..self.sequencer.order() }
    }

    /// Decodes what still waits and closes the trace.
    pub fn finish(self, sink: &mut impl FnMut(Item)) -> Counts {
        self.finish_to(&mut Items(sink))
    }

    /// Decodes what still waits and closes the trace; the sink says how it wants what is in it.
    pub fn finish_to(mut self, sink: &mut impl Sink) -> Counts {
        self.flush(sink);
        self.decoder.close_session(sink);
        self.into_counts()
    }
}
