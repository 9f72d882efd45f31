//! Defines the sinks that take the items of the cards on a wire, and the counts of a wire.

use crate::decode::columns::Columns;
use crate::decode::counts::Counts;
use crate::decode::frame::Origin;
use crate::decode::item::{Counted, Item, Sink};

/// Takes the items of the cards on one wire. Cards are numbered from 0 in the order in which they appear.
///
/// A closure that takes a card's number and an [`Item`] is a sink; wrapped in [`Counted`] it gets no events.
pub trait CardSink {
    /// Whether the sink takes events. If not, events are only counted; all other elements are passed as items.
    const EVENTS: bool = true;

    /// Takes an item of a card.
    fn item(&mut self, card: usize, item: Item);

    /// Called after all items of a card's frame from `origin` were passed.
    fn frame_read(&mut self, _card: usize, _origin: Origin) {}

    /// The columns to which the accesses of a card are appended; if `None`, each access is passed as an item.
    fn columns(&mut self, _card: usize) -> Option<&mut Columns> {
        None
    }
}

/// A sink for the items of one card: passes them to a [`CardSink`] with the card's number.
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

impl<F: FnMut(usize, Item)> CardSink for F {
    fn item(&mut self, card: usize, item: Item) {
        self(card, item);
    }
}

impl<F: FnMut(usize, Item)> CardSink for Counted<F> {
    const EVENTS: bool = false;

    fn item(&mut self, card: usize, item: Item) {
        (self.0)(card, item);
    }
}

/// The counts of the cards on a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// The counts of each card, by card number.
    pub cards: Vec<Counts>,
    /// Frames that no card sent, strays included.
    pub foreign_frames: u64,
    /// Frames with a card's addresses that continue no card's frames.
    pub stray_frames: u64,
}

impl WireCounts {
    /// The counts of all cards together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts {
            foreign_frames: self.foreign_frames,
            stray_frames: self.stray_frames,
            ..Counts::default()
        };
        self.cards.iter().for_each(|card| sum.add(card));
        sum
    }
}
