//! Buffers the decoded items of several frames. Passes them on as runs: accesses of one card, and
//! the item after them.

use hmtt::CardId;
use hmtt::decode::{Accesses, Columns, Item, Sink};

/// Number of accesses after which the buffer is passed on: large enough to be efficient, and small
/// enough for a processor's cache.
const ENOUGH: usize = 4096;

/// Items that were not yet passed on. If `EVENTS` is false, accesses are only counted and not kept.
#[derive(Default)]
pub(super) struct ItemBuffer<const EVENTS: bool> {
    columns: Columns,
    runs: Vec<Run>,
    /// Card of the accesses after the last run.
    card: CardId,
}

/// Accesses of one card, and the item that follows them. The accesses begin where the previous run
/// ends.
struct Run {
    card: CardId,
    /// Index after the last access.
    end: usize,
    item: Option<Item>,
}

impl<const EVENTS: bool> Sink for ItemBuffer<EVENTS> {
    const EVENTS: bool = EVENTS;

    fn item(&mut self, card: CardId, item: Item) {
        self.change_card(card);
        self.runs.push(Run { card, end: self.columns.len(), item: Some(item) });
    }

    fn columns(&mut self, card: CardId) -> Option<&mut Columns> {
        if !EVENTS {
            return None;
        }
        self.change_card(card);
        Some(&mut self.columns)
    }
}

impl<const EVENTS: bool> ItemBuffer<EVENTS> {
    /// Starts a new run if the card changes.
    fn change_card(&mut self, card: CardId) {
        if card != self.card {
            self.close();
            self.card = card;
        }
    }

    fn close(&mut self) {
        let end = self.columns.len();
        if self.runs.last().map_or(0, |run| run.end) != end {
            self.runs.push(Run { card: self.card, end, item: None });
        }
    }

    /// Whether the buffer has an item or enough accesses to be passed on.
    pub fn is_due(&self) -> bool {
        !self.runs.is_empty() || self.columns.len() >= ENOUGH
    }

    /// Passes on all buffered items and empties the buffer.
    pub fn pass_on(&mut self, mut to: impl FnMut(CardId, Accesses<'_>, Option<Item>)) {
        self.close();
        let mut start = 0;
        for Run { card, end, item } in self.runs.drain(..) {
            let accesses = Accesses {
                clocks: &self.columns.clocks[start..end],
                addresses: &self.columns.addresses[start..end],
                writes: &self.columns.writes[start..end],
            };
            to(card, accesses, item);
            start = end;
        }
        self.columns.clear();
    }
}
