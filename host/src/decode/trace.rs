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
use super::doubt::Doubt;
use super::frame::{Frame, Origin};
use super::item::{Counted, Item, Items, Malformation, Sink};
use super::sequence::{Order, Place, Sequencer};

/// Decodes the frames of one card as they come.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(super) sequencer: Sequencer,
    pub(super) doubt: Doubt,
    pub(super) decoder: Decoder,
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
            && self.usurps(counter, frame)
            && let Some(evicted) = self.sequencer.evict(counter)
        {
            self.decoder.note_malformed(evicted, Malformation::Contradiction, sink);
        }
        let (doubt, decoder) = (&mut self.doubt, &mut self.decoder);
        self.sequencer.push(origin, bytes, frame, &mut |step| doubt.step(step, decoder, sink));
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
    pub fn go_on_from(&mut self, report: Box<Report>, sink: &mut impl Sink) {
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
        let (doubt, decoder) = (&mut self.doubt, &mut self.decoder);
        self.sequencer.restart(&mut |step| doubt.step(step, decoder, sink));
    }

    /// Whether no frame with counts was decoded yet.
    pub(super) fn is_new(&self) -> bool {
        self.decoder.reached.is_none()
    }

    /// Decodes what still waits; the session goes on.
    pub(super) fn flush(&mut self, sink: &mut impl Sink) {
        let (doubt, decoder) = (&mut self.doubt, &mut self.decoder);
        self.sequencer.finish(&mut |step| doubt.step(step, decoder, sink));
        self.doubt.finish(&mut self.decoder, sink);
    }

    /// Takes back what was counted up to `earlier`, which has turned out to be another card's, and the
    /// restart or gap between. `opening`: what this card's first frame says of what was before it.
    pub(super) fn disown(&mut self, earlier: &Trace, restarted: bool, opening: Sync) {
        let counts = &mut self.decoder.counts;
        counts.take_away(&earlier.decoder.counts);
        counts.clocks = counts.clocks.map(|(_, last)| (opening.clock, last));
        let order = self.sequencer.order_mut();
        order.combine(&earlier.sequencer.order(), u64::saturating_sub);
        if restarted {
            order.restarts = order.restarts.saturating_sub(1);
            counts.order.restarts = counts.order.restarts.saturating_sub(1);
        } else {
            let missing = counts.start_at_first_gap(opening.accesses);
            order.missing = order.missing.saturating_sub(missing);
        }
    }

    /// Whether the last data frame of the session has been followed by an end frame.
    pub fn has_ended(&self) -> bool {
        self.sequencer.has_ended()
    }

    /// The counts so far; those of the order are final only after [`Trace::finish`].
    pub fn counts(&self) -> &Counts {
        &self.decoder.counts
    }

    /// The counts so far, with those of the order; frames that wait are not among them.
    pub fn counts_so_far(&self) -> Counts {
        let order = self.order();
        Counts { order, ..self.decoder.counts.clone() }
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
        self.decoder.counts.order = self.order();
        self.decoder.counts
    }
}
