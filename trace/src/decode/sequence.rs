//! Restores the order in which a card sent its frames, and reports missing frames.
//!
//! The next frame in counter order is passed on at once. A frame that is ahead waits until the
//! frames before it have arrived. An absent frame is reported missing when a frame arrives whose
//! counter is [`WINDOW`] counts or more after it. For example, frames 7 and 8 wait for frame 6; if
//! frame 70 arrives first, frame 6 is reported missing, and frames 7 and 8 are passed on. Counters
//! are compared modulo 2^40, so a wrap to 0 is in order.
//!
//! An unreadable frame states only its counter, and anyone can send it. It waits until its counter
//! would be reported missing, and is passed on instead. A readable frame with the same counter
//! displaces it. An unreadable frame makes no other frame late.
//!
//! Invariant: every counter between the first and the last frame of a session is passed on exactly
//! once or reported missing exactly once. A session ends where the card restarts its counter.

mod order;
mod place;

use std::collections::VecDeque;

use hmtt_format::frame::{COUNTER_BITS, COUNTER_MASK, FrameKind};

use super::arrival::{Arrival, StoredFrame};
use super::counts_after::FrameSummary;
pub use super::distance::WINDOW;
pub(super) use super::distance::{FARTHEST_DETOUR, FIRST_FRAMES};
use super::frame::Frame;
pub use order::Order;
pub(super) use place::{FARTHEST_GAP, Place};

/// An element of the sequencer's output.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The next frame in order.
    Frame(&'a Arrival<'a>),
    /// Frames that did not arrive.
    Missing {
        /// Counter of the first missing frame, modulo 2^40.
        first: u64,
        /// Number of missing frames.
        frames: u64,
    },
    /// The card restarted its counter. Frames before the restart may be missing; their number is
    /// not known.
    Restart,
    /// An unreadable frame that the card did not send, because no place is left for it.
    Stray(&'a Arrival<'a>),
}

/// Puts the frames of one card in order. Counters are extended to 64 bits ("unwrapped") and start
/// at 2^40, so that plain comparison works.
#[derive(Clone, Debug, Default)]
pub struct Sequencer {
    order: Order,
    /// Whether a frame of this session has arrived.
    open: bool,
    /// Whether the first frame of the session is known, so that no earlier frame is expected.
    started: bool,
    /// Whether an end frame has followed the session's last data frame.
    ended: bool,
    next: u64,
    /// The highest unwrapped counter of the readable frames that arrived.
    newest: u64,
    /// Waiting frames with their unwrapped counters, ascending. The readable frames span less than
    /// [`WINDOW`] counts; unreadable frames are less than [`WINDOW`] counts ahead of the newest
    /// readable frame.
    held: VecDeque<(u64, StoredFrame)>,
    /// Unwrapped counter and fingerprint of each frame passed on within the last
    /// [`FARTHEST_DETOUR`] counters, ascending.
    passed: VecDeque<(u64, u64)>,
}

impl Sequencer {
    /// Whether an end frame has followed the session's last data frame.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The counts of missing, copied and reordered frames so far.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The counts so far, for corrections by the card's trace.
    pub(super) fn order_mut(&mut self) -> &mut Order {
        &mut self.order
    }

    /// Takes the next frame that arrived.
    pub fn push(&mut self, arrival: &Arrival<'_>, pass: &mut impl FnMut(Step<'_>)) {
        self.push_at(self.place(arrival), arrival, pass);
    }

    /// Takes the next frame that arrived. `place`: the result of [`Sequencer::place`] for the
    /// frame.
    pub(super) fn push_at(
        &mut self,
        place: Place,
        arrival: &Arrival<'_>,
        pass: &mut impl FnMut(Step<'_>),
    ) {
        if !self.open {
            self.open_session(&arrival.frame);
        }
        let is_readable = arrival.frame.body.is_ok();
        match place {
            Place::Late | Place::Restart | Place::Taken(_) if !is_readable => {
                pass(Step::Stray(arrival));
            }
            Place::Ahead(counter) => self.take(counter, arrival, pass),
            Place::Duplicate => self.order.duplicate_frames += 1,
            Place::Late => {
                self.order.reordered_frames += 1;
                self.order.late_frames += 1;
            }
            Place::Restart | Place::Taken(_) => {
                self.restart(pass);
                self.open_session(&arrival.frame);
                self.take(self.next, arrival, pass);
            }
        }
        match arrival.frame.kind() {
            Some(FrameKind::End) => self.ended = true,
            Some(FrameKind::Data) => self.ended = false,
            _ => {}
        }
    }

    /// Whether a frame with this counter would be passed on at once and no frame waits.
    pub(super) fn is_in_order(&self, counter: u64) -> bool {
        self.started && self.held.is_empty() && self.next & COUNTER_MASK == counter
    }

    /// The distance between an unwrapped counter and the newest, in frames.
    pub(super) fn distance(&self, counter: u64) -> u64 {
        counter.abs_diff(self.newest)
    }

    /// Counters and summaries of the frames that wait before an unwrapped counter, the nearest
    /// first.
    pub(super) fn held_before(&self, counter: u64) -> impl Iterator<Item = (u64, FrameSummary)> {
        let before = self.held.range(..self.held_from(counter)).rev();
        before.map(|(before, held)| (*before, held.summary))
    }

    /// Summary of the frame that waits at an unwrapped counter.
    pub(super) fn held_at(&self, counter: u64) -> Option<FrameSummary> {
        self.waiting(counter).map(|held| held.summary)
    }

    /// Index of the first waiting frame with this unwrapped counter or a later one.
    fn held_from(&self, counter: u64) -> usize {
        self.held.partition_point(|(held, _)| *held < counter)
    }

    /// The frame that waits at an unwrapped counter.
    fn waiting(&self, counter: u64) -> Option<&StoredFrame> {
        let (held, frame) = self.held.get(self.held_from(counter))?;
        (*held == counter).then_some(frame)
    }

    /// Removes and returns the frame that waits at an unwrapped counter, because its counter is
    /// wrong.
    pub(super) fn evict(&mut self, counter: u64) -> Option<StoredFrame> {
        self.waiting(counter)?;
        self.held.remove(self.held_from(counter)).map(|(_, held)| held)
    }

    /// The highest unwrapped counter of the readable frames that arrived.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The next unwrapped counter to be passed on.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Counters and summaries of the frames that wait after an unwrapped counter.
    pub(super) fn held_after(&self, counter: u64) -> impl Iterator<Item = (u64, FrameSummary)> {
        let after = self.held.range(self.held_from(counter + 1)..);
        after.map(|(after, held)| (*after, held.summary))
    }

    /// Number of frames between an unwrapped counter and the nearest readable frame before it.
    /// Unreadable frames are not taken for present, because anyone can send them. `None` if no
    /// readable frame before the counter has arrived.
    pub(super) fn missing_before(&self, counter: u64) -> Option<u64> {
        let is_readable = |summary: &FrameSummary| !matches!(summary, FrameSummary::Unreadable);
        match self.held_before(counter).find(|(_, summary)| is_readable(summary)) {
            Some((before, _)) => Some(counter - before - 1),
            None => self.started.then(|| counter.saturating_sub(self.next)),
        }
    }

    /// A sequencer that continues this session with empty counts and no waiting frames. It keeps
    /// the fingerprints of earlier frames, as far back as copies are recognised. `counter`: counter
    /// of its next frame.
    pub(super) fn successor(&self, counter: u64) -> Self {
        let oldest = self.unwrapped(counter).saturating_sub(FARTHEST_DETOUR);
        let from = self.passed.partition_point(|(passed, _)| *passed < oldest);
        Sequencer {
            order: Order::default(),
            held: VecDeque::new(),
            passed: self.passed.range(from..).copied().collect(),
            ..*self
        }
    }

    /// Passes on all frames that still wait.
    pub fn finish(&mut self, pass: &mut impl FnMut(Step<'_>)) {
        self.started = true;
        while let Some((counter, frame)) = self.held.front() {
            if *counter <= self.newest {
                self.give_up_to(u64::MAX, pass);
            } else if *counter == self.newest + 1 && !self.ended {
                // The card may have sent one frame more, which is damaged.
                self.newest = *counter;
            } else {
                pass(Step::Stray(&frame.arrival()));
                self.held.pop_front();
            }
        }
    }

    /// Ends the session: the next frame begins another one.
    pub(super) fn restart(&mut self, pass: &mut impl FnMut(Step<'_>)) {
        self.finish(pass);
        self.order.restarts += 1;
        pass(Step::Restart);
        self.open = false;
    }

    fn open_session(&mut self, first: &Frame<'_>) {
        self.open = true;
        self.ended = false;
        self.next = first_place(first);
        self.newest = self.next;
        self.started = first.opens_session();
        self.passed.clear();
    }

    fn take(&mut self, counter: u64, arrival: &Arrival<'_>, pass: &mut impl FnMut(Step<'_>)) {
        if arrival.frame.body.is_err() {
            if (self.next..self.newest + WINDOW).contains(&counter) {
                self.hold(counter, arrival)
            } else {
                pass(Step::Stray(arrival))
            }
            return;
        }
        if counter < self.newest {
            self.order.reordered_frames += 1;
        }
        self.newest = self.newest.max(counter);
        if self.started && counter == self.next {
            pass(Step::Frame(arrival));
            self.passed_on(arrival.fingerprint());
            self.pass_ready(pass);
            return;
        }
        if !self.started {
            self.next = self.next.min(counter);
        }
        self.hold(counter, arrival);
        while !self.held.is_empty() && self.newest >= self.next + WINDOW {
            self.started = true;
            self.give_up_to(self.newest - WINDOW + 1, pass);
        }
    }

    fn hold(&mut self, counter: u64, arrival: &Arrival<'_>) {
        self.held.insert(self.held_from(counter), (counter, StoredFrame::new(arrival)));
    }

    /// Reports the absent frames before the first waiting frame as missing, but no frame from the
    /// unwrapped counter `limit` on. Then passes on the frames that are next. If the first waiting
    /// frame is before `limit`, it is passed on even if it is unreadable: no readable frame with
    /// its counter has arrived.
    fn give_up_to(&mut self, limit: u64, pass: &mut impl FnMut(Step<'_>)) {
        let Some(&(held, _)) = self.held.front() else { return };
        let counter = held.min(limit);
        if counter > self.next {
            let frames = counter - self.next;
            self.order.missing_frames = self.order.missing_frames.saturating_add(frames);
            pass(Step::Missing { first: self.next & COUNTER_MASK, frames });
            self.next = counter;
        }
        if held < limit {
            self.pass_first(pass);
        }
        self.pass_ready(pass);
    }

    fn pass_ready(&mut self, pass: &mut impl FnMut(Step<'_>)) {
        let is_ready =
            |(counter, held): &(u64, StoredFrame), next| *counter == next && held.is_readable();
        while self.held.front().is_some_and(|first| is_ready(first, self.next)) {
            self.pass_first(pass);
        }
    }

    /// Passes on the first waiting frame, which is the next one.
    fn pass_first(&mut self, pass: &mut impl FnMut(Step<'_>)) {
        let Some((_, held)) = self.held.pop_front() else { return };
        let arrival = held.arrival();
        pass(Step::Frame(&arrival));
        self.passed_on(arrival.fingerprint());
    }

    fn passed_on(&mut self, fingerprint: u64) {
        self.passed.push_back((self.next, fingerprint));
        self.next += 1;
        while self.passed.front().is_some_and(|(counter, _)| counter + FARTHEST_DETOUR < self.next)
        {
            self.passed.pop_front();
        }
    }
}

/// The unwrapped counter of the first frame of a session.
fn first_place(frame: &Frame<'_>) -> u64 {
    frame.counter + (1 << COUNTER_BITS)
}
