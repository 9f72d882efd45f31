//! Where the items of the cards on a wire go, and what was counted of them.

use crate::decode::columns::Columns;
use crate::decode::counts::Counts;
use crate::decode::frame::Origin;
use crate::decode::item::{Item, Sink};

/// Takes the items of the cards on one wire, which are numbered from 0 as they appear.
pub trait CardSink {
    /// Whether events are wanted; if not, they are counted and everything else comes as an item.
    const EVENTS: bool = true;

    /// Takes an item of a card.
    fn item(&mut self, card: usize, item: Item);

    /// Takes note that all items of a card's frame, which came by `origin`, were given.
    fn frame_read(&mut self, _card: usize, _origin: Origin) {}

    /// Where the accesses of a card go; if this is none, each is an item of its own.
    fn columns(&mut self, _card: usize) -> Option<&mut Columns> {
        None
    }
}

/// One card's part of a sink.
pub(super) struct SinkOfCard<'a, S>(pub usize, pub &'a mut S);

impl<S: CardSink> Sink for SinkOfCard<'_, S> {
    const EVENTS: bool = S::EVENTS;

    fn item(&mut self, item: Item) {
        self.1.item(self.0, item);
    }

    fn frame_read(&mut self, origin: Origin) {
        self.1.frame_read(self.0, origin);
    }

    fn columns(&mut self) -> Option<&mut Columns> {
        self.1.columns(self.0)
    }
}

/// A closure as a sink that wants every item.
pub(in crate::decode) struct Items<F>(pub F);

impl<F: FnMut(usize, Item)> CardSink for Items<F> {
    fn item(&mut self, card: usize, item: Item) {
        (self.0)(card, item);
    }
}

/// A closure as a sink that wants no events.
pub(in crate::decode) struct Counted<F>(pub F);

impl<F: FnMut(usize, Item)> CardSink for Counted<F> {
    const EVENTS: bool = false;

    fn item(&mut self, card: usize, item: Item) {
        (self.0)(card, item);
    }
}

/// What was counted on a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// The counts of each card.
    pub cards: Vec<Counts>,
    /// Frames that no card sent, strays included.
    pub foreign: u64,
    /// Frames with a card's addresses that go on from no card.
    pub strays: u64,
}

impl WireCounts {
    /// All together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts { foreign: self.foreign, strays: self.strays, ..Counts::default() };
        self.cards.iter().for_each(|card| sum.add(card));
        sum
    }
}
