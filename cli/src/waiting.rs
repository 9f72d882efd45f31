//! What frames bring, some packets at a time, to runs of one card's accesses and the items between.

use hmtt::decode::{Accesses, CardSink, Columns, Item};

/// Accesses that are worth passing on, and little enough for a processor's cache.
const ENOUGH: usize = 4096;

/// What has not been passed on; without `EVENTS` records are only counted.
#[derive(Default)]
pub(super) struct Waiting<const EVENTS: bool> {
    columns: Columns,
    runs: Vec<Run>,
    /// Whose accesses come.
    card: usize,
}

/// Accesses of a card, and the item after them.
struct Run {
    card: usize,
    /// Row after the last access.
    end: usize,
    item: Option<Item>,
}

impl<const EVENTS: bool> CardSink for Waiting<EVENTS> {
    const EVENTS: bool = EVENTS;

    fn item(&mut self, card: usize, item: Item) {
        self.turn(card);
        self.runs.push(Run { card, end: self.columns.len(), item: Some(item) });
    }

    fn columns(&mut self, card: usize) -> Option<&mut Columns> {
        if !EVENTS {
            return None;
        }
        self.turn(card);
        Some(&mut self.columns)
    }
}

impl<const EVENTS: bool> Waiting<EVENTS> {
    /// Another card's accesses are another run.
    fn turn(&mut self, card: usize) {
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

    /// Whether there is something that should not wait.
    pub fn is_due(&self) -> bool {
        !self.runs.is_empty() || self.columns.len() >= ENOUGH
    }

    /// Gives everything away.
    pub fn pass_on(&mut self, mut to: impl FnMut(usize, Accesses<'_>, Option<Item>)) {
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
