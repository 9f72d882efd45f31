//! Decodes the frames of all links of a capture into the traces of their cards, and numbers the cards.
//!
//! Each link is a [`Wire`] of its own, because a card is connected to one link. Cards are numbered from 0 in the order
//! in which they appear.

use hmtt_format::Report;

use super::columns::Columns;
use super::counts::Counts;
use super::frame::Origin;
use super::item::Item;
use super::wire::{CardSink, Wire};

/// The counts of one card of a capture, and its link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardCounts {
    /// The link of the card, as in [`Origin::link`].
    pub link: u16,
    /// The counts of the card.
    pub counts: Counts,
}

/// The counts of all links of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// The counts of each card, by card number.
    pub cards: Vec<CardCounts>,
    /// Frames that no card sent, strays included.
    pub foreign_frames: u64,
    /// Frames with a card's addresses that continue no card's frames.
    pub stray_frames: u64,
}

impl LinkCounts {
    /// The counts of all cards together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts {
            foreign_frames: self.foreign_frames,
            stray_frames: self.stray_frames,
            ..Counts::default()
        };
        self.cards.iter().for_each(|card| sum.add(&card.counts));
        sum
    }
}

/// A decoder of the frames of several links. Sinks get the card number of each item, from 0.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// # let mut reader = hmtt::pcapng::PcapngReader::from_reader(CAPTURE)?;
/// # let frame = reader.next_packet()?.unwrap().bytes.to_vec();
/// use hmtt::decode::{Links, Origin};
///
/// let mut links = Links::default();
/// for link in [0, 1] {
///     links.push(Origin { link, ..Origin::default() }, &frame, &mut |_card, _item| {});
/// }
/// let counts = links.finish(&mut |_card, _item| {});
/// assert_eq!((counts.cards.len(), counts.sum().accesses), (2, 8));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<(Wire, Vec<usize>)>,
    cards: Vec<u16>,
}

/// A sink that maps the card numbers of one wire to those of the capture.
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
    /// Takes the next captured frame, which arrived on [`Origin::link`]. Its items go to `sink` with their card number.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl CardSink) {
        self.add_link(origin.link);
        let (wire, numbers) = &mut self.links[usize::from(origin.link)];
        let mut sink = Numbered { link: origin.link, numbers, cards: &mut self.cards, sink };
        wire.push(origin, bytes, &mut sink);
        if let Some(last) = wire.cards().len().checked_sub(1) {
            sink.number(last);
        }
    }

    /// Sets the report that the card on a link sent before its first frame here.
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

    /// The link of each card found so far, by card number.
    pub fn cards(&self) -> &[u16] {
        &self.cards
    }

    /// Decodes the frames that still wait, closes all traces and returns the counts of each card.
    pub fn finish(self, sink: &mut impl CardSink) -> LinkCounts {
        let Links { links, mut cards } = self;
        let mut found = LinkCounts::default();
        let mut counted = Vec::new();
        for ((wire, mut numbers), link) in links.into_iter().zip(0..) {
            let mut sink = Numbered { link, numbers: &mut numbers, cards: &mut cards, sink };
            let counts = wire.finish(&mut sink);
            found.foreign_frames += counts.foreign_frames;
            found.stray_frames += counts.stray_frames;
            for (card, counts) in counts.cards.into_iter().enumerate() {
                counted.push((sink.number(card), CardCounts { link, counts }));
            }
        }
        counted.sort_by_key(|(number, _)| *number);
        found.cards = counted.into_iter().map(|(_, card)| card).collect();
        found
    }
}
