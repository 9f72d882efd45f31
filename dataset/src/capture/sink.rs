//! Collects the accesses and items of each card in a capture, each with its session and its
//! arrival.
//!
//! A frame may wait for other frames before it is decoded. So its arrival is the time of its own
//! packet, and not the time of the last packet. The arrival is known only after the frame's items
//! ([`Sink::frame_read`]). Items without a frame, such as the end of a session without an end
//! frame, get the arrival of the card's last frame.

use std::time::Duration;

use hmtt::CardId;
use hmtt::decode::{Accesses, Columns, Item, Origin, Sink};
use hmtt_format::Report;
use hmtt_format::frame::Sync;
use parquet::data_type::ByteArray;

use super::item_rows::{self, Head};
use crate::clock::SessionClock;
use crate::error::DatasetError;
use crate::rows::Value;
use crate::schema::Table;

/// Number of accesses that are collected of one card before they are written.
pub const DUE_ACCESSES: usize = 1 << 20;
/// Number of items that are collected before they are written.
const DUE_ITEMS: usize = 1 << 12;

/// A session of a card: everything that the card sends between two restarts.
#[derive(Debug)]
pub struct Session {
    /// The card that the session belongs to.
    pub card: CardId,
    /// Clocks of the session, and arrivals of its frames.
    pub clock: SessionClock,
    /// The last report of the card in the session.
    pub report: Option<Box<Report>>,
    /// First and last arrival of the session's frames.
    pub arrivals: Option<(Duration, Duration)>,
    /// Number of the session's rows in each table, by [`Table`].
    pub rows: [u64; Table::ALL.len()],
    is_used: bool,
}

/// The accesses of one frame, from the `end` of the previous frame to the `end` of this frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameAccesses {
    /// Number of the session.
    pub session: usize,
    /// Index after the last access in [`CardAccesses::columns`].
    pub end: usize,
    /// Arrival of the frame.
    pub arrival: Duration,
}

/// Collected accesses of a card that are not written yet.
#[derive(Debug, Default)]
pub struct CardAccesses {
    /// Clocks, addresses and directions of the accesses.
    pub columns: Columns,
    /// The frames of the accesses, in order.
    pub frames: Vec<FrameAccesses>,
    /// Number of the card's current session; `None` before its first item and after a restart.
    session: Option<usize>,
    /// Highest clock in the frame that is being read.
    reached: Option<u64>,
    /// Arrival of the card's last frame.
    arrival: Option<Duration>,
    /// Whether the frame that is being read has no records of accesses.
    has_slices_only: bool,
}

impl CardAccesses {
    /// Passes on the accesses of frames whose arrival is known, frame by frame, and removes them.
    pub fn take(&mut self, mut to: impl FnMut(&FrameAccesses, Accesses<'_>)) {
        let mut start = 0;
        for frame in self.frames.drain(..) {
            let Columns { clocks, addresses, writes } = &self.columns;
            let rows = start..frame.end;
            let accesses = Accesses {
                clocks: &clocks[rows.clone()],
                addresses: &addresses[rows.clone()],
                writes: &writes[rows],
            };
            to(&frame, accesses);
            start = frame.end;
        }
        self.remove(start);
    }

    /// Removes the first accesses. Their frames must have been removed before.
    pub fn remove(&mut self, count: usize) {
        let CardAccesses { columns, frames, .. } = self;
        frames.iter_mut().for_each(|frame| frame.end -= count);
        columns.clocks.drain(..count);
        columns.addresses.drain(..count);
        columns.writes.drain(..count);
    }
}

/// A collected item that is not written yet.
#[derive(Debug)]
pub struct Placed {
    /// Number of the session.
    pub session: usize,
    /// The item.
    pub item: Item,
    /// Arrival of the item's frame; `None` while the frame is being read.
    pub arrival: Option<Duration>,
    /// Whether the item's frame has no records of accesses. Then only the row of a slice counts its
    /// accesses.
    pub has_slices_only: bool,
}

/// Collects the accesses and items of a capture, as a sink of the decoder.
#[derive(Debug, Default)]
pub struct CaptureSink {
    /// Sessions of all cards, in the order in which they began. The index is the number of a
    /// session.
    pub sessions: Vec<Session>,
    /// Collected accesses of each card.
    pub cards: Vec<CardAccesses>,
    /// Collected items of all cards.
    pub items: Vec<Placed>,
    /// Arrival of the packet that is being decoded.
    time: Duration,
    has_due_card: bool,
}

impl CaptureSink {
    /// Sets the arrival of the packet that is decoded next.
    pub fn begin(&mut self, time: Duration) {
        self.time = time;
    }

    /// Whether there are enough accesses or items to be written.
    pub fn is_due(&self) -> bool {
        self.has_due_card || self.items.len() >= DUE_ITEMS
    }

    /// Notes that the due accesses were taken, so that no card is due.
    pub fn taken(&mut self) {
        self.has_due_card = false;
    }

    /// Ends the capture. Items and accesses without a frame get the arrival of their card's last
    /// frame.
    pub fn end(&mut self) {
        for card in 0..self.cards.len() {
            let arrival = self.cards[card].arrival.unwrap_or(self.time);
            self.date(CardId(card), arrival);
        }
    }

    /// Removes the items whose arrival is known. Passes on their rows, each with its card, its
    /// arrival and its table. `capture`: hash of the capture, as text.
    pub fn take_rows(
        &mut self,
        capture: &str,
        mut to: impl FnMut(CardId, Duration, Table, Vec<Value>) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        let dated = self.items.iter().take_while(|placed| placed.arrival.is_some()).count();
        if dated == 0 {
            return Ok(());
        }
        let capture = ByteArray::from(capture);
        for placed in self.items.drain(..dated) {
            let Some(arrival) = placed.arrival else { continue };
            let Placed { session: number, has_slices_only, .. } = placed;
            let session = &mut self.sessions[number];
            let head = Head { capture: capture.clone(), session: number, arrival, has_slices_only };
            let row = item_rows::row(&head, &placed.item, session.report.as_deref());
            let Some((table, row)) = row else { continue };
            session.rows[table as usize] += 1;
            to(session.card, arrival, table, row)?;
        }
        Ok(())
    }

    /// The number of the card's current session. If there is none, a session begins.
    fn session(&mut self, card: CardId) -> usize {
        while self.cards.len() <= card.0 {
            self.cards.push(CardAccesses::default());
        }
        let sessions = &mut self.sessions;
        *self.cards[card.0].session.get_or_insert_with(|| {
            sessions.push(Session {
                card,
                clock: SessionClock::default(),
                report: None,
                arrivals: None,
                rows: [0; Table::ALL.len()],
                is_used: false,
            });
            sessions.len() - 1
        })
    }

    /// Sets the arrival of the card's accesses and items that have none yet.
    fn date(&mut self, card: CardId, arrival: Duration) {
        let number = self.session(card);
        let card_state = &mut self.cards[card.0];
        let session = &mut self.sessions[number];
        let (start, end) =
            (card_state.frames.last().map_or(0, |frame| frame.end), card_state.columns.len());
        if let [first, .., last] | [first @ last] = card_state.columns.clocks[start..end] {
            card_state.frames.push(FrameAccesses { session: number, end, arrival });
            session.clock.see(first);
            session.clock.see(last);
            card_state.reached = Some(card_state.reached.map_or(last, |reached| reached.max(last)));
            session.rows[Table::Accesses as usize] += (end - start) as u64;
            session.is_used = true;
        }
        self.has_due_card |= end >= DUE_ACCESSES;
        let mut is_dated = start != end;
        for placed in self.items.iter_mut().rev().take_while(|placed| placed.arrival.is_none()) {
            placed.arrival = Some(arrival);
            is_dated = true;
            note_arrival(&mut self.sessions[placed.session], arrival);
        }
        if is_dated {
            note_arrival(&mut self.sessions[number], arrival);
        }
    }
}

fn note_arrival(session: &mut Session, arrival: Duration) {
    let (first, last) = session.arrivals.unwrap_or((arrival, arrival));
    session.arrivals = Some((first.min(arrival), last.max(arrival)));
}

impl Sink for CaptureSink {
    fn item(&mut self, card: CardId, item: Item) {
        let number = self.session(card);
        match &item {
            Item::Restart if self.sessions[number].is_used => {
                let arrival = self.cards[card.0].arrival.unwrap_or(self.time);
                self.date(card, arrival);
                self.cards[card.0].session = None;
                self.cards[card.0].reached = None;
            }
            Item::Report { report, .. } => {
                let session = &mut self.sessions[number];
                session.clock.set_period(report.memory.tck_ps);
                session.report = Some(report.clone());
            }
            _ => {}
        }
        let number = self.session(card);
        if let Some(clock) = item.clock() {
            self.sessions[number].clock.see(clock.0);
            let reached = &mut self.cards[card.0].reached;
            *reached = Some(reached.map_or(clock.0, |reached| reached.max(clock.0)));
        }
        self.sessions[number].is_used = true;
        let has_slices_only = self.cards[card.0].has_slices_only;
        self.items.push(Placed { session: number, item, arrival: None, has_slices_only });
    }

    fn frame_begins(&mut self, card: CardId, sync: &Sync) {
        self.session(card);
        self.cards[card.0].has_slices_only = sync.has_no_numbers();
    }

    fn frame_read(&mut self, card: CardId, origin: Origin) {
        let arrival = origin.time.unwrap_or(self.time);
        self.date(card, arrival);
        let number = self.session(card);
        note_arrival(&mut self.sessions[number], arrival);
        let card_state = &mut self.cards[card.0];
        card_state.arrival = Some(arrival);
        if let Some(clock) = card_state.reached.take() {
            self.sessions[number].clock.arrive(clock, arrival);
        }
    }

    fn columns(&mut self, card: CardId) -> Option<&mut Columns> {
        self.session(card);
        self.cards.get_mut(card.0).map(|of| &mut of.columns)
    }
}
