//! Collects decoded items as runs. A run is some accesses of one card, in columns, and the item
//! that follows them:
//!
//! ```text
//! items   access, access, gap of card 1   access of card 1   access, mark of card 2
//! runs    2 rows, gap                     1 row              1 row, mark
//! ```
//!
//! Runs are filled from some packets at a time, and then taken in order. Invariant: the rows of the
//! runs are consecutive and cover the columns, and only the current run can be taken in part.

use std::collections::VecDeque;
use std::ops::Range;

use hmtt_format::frame::Sync;
use hmtt_format::{Access, Event};

use crate::decode::{Accesses, Columns, Item, Sink};
use crate::identity::CardId;

/// Number of accesses after which runs are returned. The accesses still fit into a processor's
/// second-level cache.
const ENOUGH: usize = 4096;

/// Decoded runs, and the current run.
#[derive(Debug)]
pub(super) struct Runs {
    columns: Columns,
    /// Runs that are complete and not yet taken, in order.
    waiting: VecDeque<Run>,
    /// The run that is being taken.
    current: Run,
    /// The card whose accesses are being appended.
    card: CardId,
    /// Rows before this one belong to complete runs.
    closed: usize,
    /// Whether the card records neither accesses nor pages in the frame that is being decoded.
    has_slices_only: bool,
}

/// Rows of accesses of one card, and the item after them.
#[derive(Debug)]
struct Run {
    card: CardId,
    rows: Range<usize>,
    item: Option<Item>,
    has_slices_only: bool,
}

impl Run {
    const NONE: Run = Run { card: CardId(0), rows: 0..0, item: None, has_slices_only: false };
}

impl Default for Runs {
    fn default() -> Self {
        Runs {
            columns: Columns::default(),
            waiting: VecDeque::new(),
            current: Run::NONE,
            card: CardId(0),
            closed: 0,
            has_slices_only: false,
        }
    }
}

impl Sink for Runs {
    fn item(&mut self, card: CardId, item: Item) {
        self.turn_to(card);
        self.push(Some(item));
    }

    fn frame_begins(&mut self, _: CardId, sync: &Sync) {
        self.has_slices_only = sync.has_no_numbers();
    }

    fn columns(&mut self, card: CardId) -> Option<&mut Columns> {
        self.turn_to(card);
        Some(&mut self.columns)
    }
}

impl Runs {
    /// Ends the run that is being filled if it belongs to another card.
    fn turn_to(&mut self, card: CardId) {
        if card != self.card {
            self.close();
            self.card = card;
        }
    }

    /// Appends an item of a merged trace. An access becomes a row.
    pub fn merged(&mut self, card: CardId, item: Item) {
        match (item, self.columns(card)) {
            (Item::Event(Event::Access(access)), Some(columns)) => columns.push(access),
            (item, _) => self.item(card, item),
        }
    }

    /// Ends the run that is being filled, with this item.
    fn push(&mut self, item: Option<Item>) {
        let end = self.columns.len();
        let rows = self.closed..end;
        let has_slices_only = self.has_slices_only;
        self.waiting.push_back(Run { card: self.card, rows, item, has_slices_only });
        self.closed = end;
    }

    /// Ends the run that is being filled, if it has accesses.
    pub fn close(&mut self) {
        if self.closed != self.columns.len() {
            self.push(None);
        }
    }

    /// Whether reading should stop, because a run is complete or enough accesses were read.
    pub fn is_due(&self) -> bool {
        !self.waiting.is_empty() || self.columns.len() >= ENOUGH
    }

    /// Removes all runs. The columns keep their memory.
    pub fn clear(&mut self) {
        self.columns.clear();
        self.waiting.clear();
        self.current = Run::NONE;
        self.closed = 0;
    }

    /// Makes the next run the current one. Skips runs of other cards than `only`, if that is a
    /// card. Returns whether there is such a run.
    pub fn advance(&mut self, only: Option<CardId>) -> bool {
        let wanted = |run: &Run| only.is_none_or(|only| only == run.card);
        while let Some(run) = self.waiting.pop_front() {
            if wanted(&run) {
                self.current = run;
                return true;
            }
        }
        self.current = Run::NONE;
        false
    }

    /// Whether the accesses and the item of the current run have been taken.
    pub fn is_empty(&self) -> bool {
        self.current.rows.is_empty() && self.current.item.is_none()
    }

    /// The card of the current run.
    pub fn card(&self) -> CardId {
        self.current.card
    }

    /// Takes the next access of the current run; `None` after the last one.
    pub fn next_access(&mut self) -> Option<Access> {
        let row = self.current.rows.next()?;
        self.columns.get(row)
    }

    /// Takes the item of the current run; `None` if it has none or it was taken.
    pub fn take_item(&mut self) -> Option<Item> {
        self.current.item.take()
    }

    /// Whether the item of the current run comes from a frame in which the card records neither
    /// accesses nor pages.
    pub fn has_slices_only(&self) -> bool {
        self.current.has_slices_only
    }

    /// Takes the rest of the current run: its card, its remaining accesses, and its item.
    pub fn take_batch(&mut self) -> (CardId, Accesses<'_>, Option<Item>) {
        let Run { card, rows, item, .. } = std::mem::replace(&mut self.current, Run::NONE);
        let accesses = Accesses {
            clocks: &self.columns.clocks[rows.clone()],
            addresses: &self.columns.addresses[rows.clone()],
            writes: &self.columns.writes[rows],
        };
        (card, accesses, item)
    }
}
