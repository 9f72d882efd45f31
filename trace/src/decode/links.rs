//! The frames of all links of a capture to the traces of all cards, numbered as they appear.
//!
//! Each link is a [`Wire`] of its own: a card is plugged into one.

use hmtt_format::Report;

use super::columns::Columns;
use super::counts::Counts;
use super::frame::Origin;
use super::item::Item;
use super::wire::{CardSink, Counted, Items, Wire};

/// A card of a capture, and what was counted of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardCounts {
    /// The link it is on, as [`Origin::link`] has it.
    pub link: u16,
    /// Its counts.
    pub counts: Counts,
}

/// What was counted on all links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// The cards, in the order of their numbers.
    pub cards: Vec<CardCounts>,
    /// Frames that no card sent, strays included.
    pub foreign: u64,
    /// Frames with a card's addresses that go on from no card.
    pub strays: u64,
}

impl LinkCounts {
    /// All together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts { foreign: self.foreign, strays: self.strays, ..Counts::default() };
        self.cards.iter().for_each(|card| sum.add(&card.counts));
        sum
    }
}

/// Decodes the frames of several links. Sinks get the number of each item's card, from 0.
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<(Wire, Vec<usize>)>,
    cards: Vec<u16>,
}

/// Numbers the cards of a wire among all.
struct Numbered<'a, S> {
    link: u16,
    numbers: &'a mut Vec<usize>,
    cards: &'a mut Vec<u16>,
    sink: &'a mut S,
}

impl<S> Numbered<'_, S> {
    fn number(&mut self, card: usize) -> usize {
        while self.numbers.len() <= card {
            self.numbers.push(self.cards.len());
            self.cards.push(self.link);
        }
        self.numbers[card]
    }
}

impl<S: CardSink> CardSink for Numbered<'_, S> {
    const EVENTS: bool = S::EVENTS;

    fn item(&mut self, card: usize, item: Item) {
        let number = self.number(card);
        self.sink.item(number, item);
    }

    fn frame_read(&mut self, card: usize, origin: Origin) {
        let number = self.number(card);
        self.sink.frame_read(number, origin);
    }

    fn columns(&mut self, card: usize) -> Option<&mut Columns> {
        let number = self.number(card);
        self.sink.columns(number)
    }
}

impl Links {
    /// Takes the next captured frame, of [`Origin::link`].
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(usize, Item)) {
        self.push_to(origin, bytes, &mut Items(sink));
    }

    /// Takes the next captured frame and counts its records; what else it has goes to `sink`.
    pub fn count(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(usize, Item)) {
        self.push_to(origin, bytes, &mut Counted(sink));
    }

    /// Takes the next captured frame; the sink says how it wants what is in it.
    pub fn push_to(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl CardSink) {
        self.add_link(origin.link);
        let (wire, numbers) = &mut self.links[usize::from(origin.link)];
        let mut sink = Numbered { link: origin.link, numbers, cards: &mut self.cards, sink };
        wire.push_to(origin, bytes, &mut sink);
        if let Some(last) = wire.cards().len().checked_sub(1) {
            sink.number(last);
        }
    }

    /// Says what the card on a link reported before its first frame here.
    pub fn continue_from(&mut self, link: u16, report: Report) {
        self.add_link(link);
        self.links[usize::from(link)].0.continue_from(report);
    }

    fn add_link(&mut self, link: u16) {
        let at = usize::from(link);
        if self.links.len() <= at {
            self.links.resize_with(at + 1, Default::default);
        }
    }

    /// The link of each card so far.
    pub fn cards(&self) -> &[u16] {
        &self.cards
    }

    /// Decodes what still waits and closes all traces.
    pub fn finish_to(self, sink: &mut impl CardSink) -> LinkCounts {
        let Links { links, mut cards } = self;
        let mut found = LinkCounts::default();
        let mut counted = Vec::new();
        for ((wire, mut numbers), link) in links.into_iter().zip(0..) {
            let mut sink = Numbered { link, numbers: &mut numbers, cards: &mut cards, sink };
            let counts = wire.finish_to(&mut sink);
            found.foreign += counts.foreign;
            found.strays += counts.strays;
            for (card, counts) in counts.cards.into_iter().enumerate() {
                counted.push((sink.number(card), CardCounts { link, counts }));
            }
        }
        counted.sort_by_key(|(number, _)| *number);
        found.cards = counted.into_iter().map(|(_, card)| card).collect();
        found
    }

    /// As [`Links::finish_to`], every element an item.
    pub fn finish(self, sink: &mut impl FnMut(usize, Item)) -> LinkCounts {
        self.finish_to(&mut Items(sink))
    }

    /// As [`Links::finish_to`], without events.
    pub fn finish_counted(self, sink: &mut impl FnMut(usize, Item)) -> LinkCounts {
        self.finish_to(&mut Counted(sink))
    }
}
