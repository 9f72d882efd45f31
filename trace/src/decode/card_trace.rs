//! Decodes the captured frames of one card into the items of their trace.
//!
//! Passes frames through the sequencer, the quarantine and the decoder. Each frame can be decoded
//! alone. The counts in its sync are compared with the counts after the previous frame, and every
//! difference becomes a [`super::Gap`] between two clocks. Invariant: the accesses in a session's
//! items, the accesses in its gaps and the accesses before its start add up to the count in its
//! last sync. No frame is an error: an unreadable frame becomes [`Item::Malformed`].

use hmtt_format::frame::{FrameKind, Sync};
use hmtt_format::{Cycles, Report};

use super::arrival::Arrival;
use super::counts::Counts;
use super::decoder::Decoder;
use super::evidence::{Counter, Position};
use super::frame::Origin;
use super::item::{Item, Malformation};
use super::quarantine::Quarantine;
use super::sequence::{Order, Place, Sequencer};
use super::sink::{CardSink, Counted, Sink};

/// A decoder of the frames of one card, in the order of arrival.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// # let mut reader = hmtt::pcapng::PcapngReader::from_reader(CAPTURE)?;
/// # let frame = reader.next_packet()?.unwrap().bytes.to_vec();
/// use hmtt::decode::{CardTrace, Origin};
///
/// let mut trace = CardTrace::default();
/// let mut items = Vec::new();
/// let mut sink = |_card, item| items.push(item);
/// trace.push(Origin { packet: 1, ..Origin::default() }, &frame, &mut sink);
/// let counts = trace.finish(&mut sink);
/// assert_eq!((counts.frames, counts.records), (1, 5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CardTrace {
    pub(super) sequencer: Sequencer,
    pub(super) quarantine: Quarantine,
    pub(super) decoder: Decoder,
    /// Counts of earlier parts of this trace: see [`CardTrace::split`].
    before: Counts,
}

impl CardTrace {
    /// Takes the next captured frame. Passes its items, and the items of frames that waited for it,
    /// to `sink` with card number 0. A sink that only counts events ([`Counted`](super::Counted))
    /// or takes columns is much faster than a sink that takes each event.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl Sink) {
        match Arrival::parse(origin, bytes) {
            Some(arrival) => self.frame(&arrival, &mut CardSink(0, sink)),
            None => self.decoder.counts.foreign_frames += 1,
        }
    }

    /// Takes the next captured frame, and discards its items.
    pub(super) fn count(&mut self, arrival: &Arrival<'_>) {
        self.frame(arrival, &mut CardSink(0, &mut Counted(|_, _| {})));
    }

    /// Takes the next captured frame.
    pub(super) fn frame(&mut self, arrival: &Arrival<'_>, sink: &mut CardSink<'_, impl Sink>) {
        if self.is_certain(&arrival.frame) {
            self.certain(arrival, sink)
        } else {
            self.frame_at(self.position(arrival), arrival, sink)
        }
    }

    /// Takes the next captured frame, whose [`CardTrace::position`] is known.
    pub(super) fn frame_at(
        &mut self,
        Position { mut place, counter }: Position,
        arrival: &Arrival<'_>,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        self.note(arrival);
        if let Place::Taken(at) = place
            && counter == Counter::Contested
            && let Some(evicted) = self.sequencer.evict(at)
        {
            if evicted.is_readable() {
                let error = Malformation::Contradiction;
                self.decoder.note_malformed(evicted.origin, error, sink);
            } else {
                self.decoder.counts.note_stray(evicted.bytes().len())
            }
            place = Place::Ahead(at);
        }
        let (quarantine, decoder) = (&mut self.quarantine, &mut self.decoder);
        self.sequencer.push_at(place, arrival, &mut |step| quarantine.step(step, decoder, sink));
    }

    /// Takes the next captured frame, for which [`CardTrace::is_certain`] holds.
    pub(super) fn certain(&mut self, arrival: &Arrival<'_>, sink: &mut CardSink<'_, impl Sink>) {
        self.note(arrival);
        let decoder = &mut self.decoder;
        self.sequencer.push(arrival, &mut |step| decoder.step(step, sink));
    }

    /// Takes a frame that states this card's counts or counter but does not fit: a copy, a late
    /// frame or a damaged frame.
    pub(super) fn stray(&mut self, arrival: &Arrival<'_>, sink: &mut CardSink<'_, impl Sink>) {
        match self.sequencer.place(arrival) {
            Place::Late | Place::Duplicate => self.frame(arrival, sink),
            Place::Ahead(_) | Place::Taken(_) | Place::Restart => {
                self.note(arrival);
                self.decoder.note_malformed(arrival.origin, Malformation::Contradiction, sink);
            }
        }
    }

    fn note(&mut self, arrival: &Arrival<'_>) {
        self.decoder.counts.frames += 1;
        self.decoder.counts.frame_bytes += arrival.bytes.len() as u64;
        self.decoder.counts.ends += u64::from(arrival.frame.kind() == Some(FrameKind::End));
    }

    /// Returns the number of unreadable frames that waited in this trace and that its card did not
    /// send, and resets the number to 0.
    pub(super) fn take_strays(&mut self) -> u64 {
        std::mem::take(&mut self.decoder.counts.foreign_frames)
    }

    /// Continues from a report that the card sent before the capture. The report is passed as an
    /// item and is not counted.
    pub(super) fn continue_from(
        &mut self,
        report: Box<Report>,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        self.decoder.note_report(&report);
        sink.item(Item::Report { clock: Cycles(0), end: false, report });
    }

    /// Restarts of the card so far.
    pub(super) fn restarts(&self) -> u64 {
        self.decoder.counts.order.restarts
    }

    /// Counts a frame of an earlier session. `copy`: whether it is a copy; if not, it is a late
    /// frame.
    pub(super) fn note_past(&mut self, arrival: &Arrival<'_>, copy: bool) {
        self.decoder.counts.frames += 1;
        self.decoder.counts.frame_bytes += arrival.bytes.len() as u64;
        let order = self.sequencer.order_mut();
        if copy {
            order.duplicate_frames += 1
        } else {
            (order.reordered_frames, order.late_frames) =
                (order.reordered_frames + 1, order.late_frames + 1)
        }
    }

    /// Ends the session; the next frame begins another one.
    pub(super) fn restart(&mut self, sink: &mut CardSink<'_, impl Sink>) {
        let (quarantine, decoder) = (&mut self.quarantine, &mut self.decoder);
        self.sequencer.restart(&mut |step| quarantine.step(step, decoder, sink));
    }

    /// Whether no frame with counts has been decoded yet.
    pub(super) fn is_new(&self) -> bool {
        self.decoder.reached.is_none()
    }

    /// Decodes the frames that still wait, without ending the session.
    pub(super) fn flush(&mut self, sink: &mut CardSink<'_, impl Sink>) {
        let (quarantine, decoder) = (&mut self.quarantine, &mut self.decoder);
        self.sequencer.finish(&mut |step| quarantine.step(step, decoder, sink));
        self.quarantine.finish(&mut self.decoder, sink);
    }

    /// Splits the trace: returns the part up to here, with its counts. `self` continues after that
    /// part with empty counts. `counter`: counter of the next frame of `self`.
    pub(super) fn split(&mut self, counter: u64, sink: &mut CardSink<'_, impl Sink>) -> CardTrace {
        self.flush(sink);
        let continued = CardTrace {
            sequencer: self.sequencer.successor(counter),
            quarantine: Quarantine::default(),
            decoder: self.decoder.successor(),
            before: Counts::default(),
        };
        std::mem::replace(self, continued)
    }

    /// Prepends the counts of an earlier part that [`CardTrace::split`] returned, because both
    /// parts are one card's.
    pub(super) fn prepend_counts(&mut self, mut earlier: Counts) {
        earlier.append(std::mem::take(&mut self.before));
        self.before = earlier;
    }

    /// Adds the counts of another trace, whose frames were attributed to this card but are not
    /// continued by this trace.
    pub(super) fn append(&mut self, others: Counts) {
        self.before.append(others);
    }

    /// Removes the restart or the gap at the start of this trace, because the part that
    /// [`CardTrace::split`] returned is another card's. `restarted`: whether the trace starts with
    /// a restart; `opening`: the sync of the trace's first frame.
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

    /// Whether an end frame has followed the last data frame of the session.
    pub fn has_ended(&self) -> bool {
        self.sequencer.has_ended()
    }

    /// Number of frames so far, including earlier parts of the trace.
    pub(super) fn frames(&self) -> u64 {
        self.before.frames.saturating_add(self.decoder.counts.frames)
    }

    /// The counts so far, without the records of frames that wait.
    pub fn counts(&self) -> Counts {
        let mut counts = self.before.clone();
        counts.append(Counts { order: self.order(), ..self.decoder.counts.clone() });
        counts
    }

    /// The counts of a trace that ends here, without the records of frames that wait.
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

    /// Decodes the frames that still wait, closes the trace and returns its counts.
    pub fn finish(self, sink: &mut impl Sink) -> Counts {
        self.finish_to(&mut CardSink(0, sink))
    }

    /// Does the same as [`CardTrace::finish`], with the card number of `sink`.
    pub(super) fn finish_to(mut self, sink: &mut CardSink<'_, impl Sink>) -> Counts {
        self.flush(sink);
        self.decoder.close_session(sink);
        self.into_counts()
    }
}
