//! Decodes the frames of all links of a capture into the traces of their cards, and numbers the
//! cards.
//!
//! Each link is a [`Wire`] of its own, because a card is connected to one link. Cards are numbered
//! from 0 in the order in which they appear.

use hmtt_format::Report;
use hmtt_format::frame::Sync;

use super::columns::Columns;
use super::frame::Origin;
use super::item::Item;
use super::link_counts::{CardCounts, LinkCounts};
use super::sink::Sink;
use super::wire::Wire;
use crate::identity::{CardId, LinkId};

/// A decoder of the frames of several links. Sinks get the card number of each item, from 0.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// # let mut reader = hmtt::pcapng::PcapngReader::from_reader(CAPTURE)?;
/// # let frame = reader.next_packet()?.unwrap().bytes.to_vec();
/// use hmtt::LinkId;
/// use hmtt::decode::{Links, Origin};
///
/// let mut links = Links::default();
/// for link in [LinkId(0), LinkId(1)] {
///     links.push(Origin { link, ..Origin::default() }, &frame, &mut |_card, _item| {});
/// }
/// let counts = links.finish(&mut |_card, _item| {});
/// assert_eq!((counts.cards.len(), counts.sum().accesses), (2, 8));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Links {
    /// The wire of each link, and the number of each card of the wire among all cards of the
    /// capture.
    links: Vec<(Wire, Vec<CardId>)>,
    /// The link of each card, by card number.
    cards: Vec<LinkId>,
}

/// A sink that maps the card numbers of one wire to the card numbers of the capture.
struct Numbered<'a, S> {
    link: LinkId,
    numbers: &'a mut Vec<CardId>,
    cards: &'a mut Vec<LinkId>,
    sink: &'a mut S,
}

impl<S> Numbered<'_, S> {
    /// Returns the number in the capture of the card with index `card` on the wire. A new card gets
    /// the next number.
    fn number(&mut self, card: usize) -> CardId {
        while self.numbers.len() <= card {
            self.numbers.push(CardId(self.cards.len()));
            self.cards.push(self.link);
        }
        self.numbers[card]
    }
}

impl<S: Sink> Sink for Numbered<'_, S> {
    const EVENTS: bool = S::EVENTS;

    fn item(&mut self, card: CardId, item: Item) {
        let number = self.number(card.0);
        self.sink.item(number, item);
    }

    fn frame_begins(&mut self, card: CardId, sync: &Sync) {
        let number = self.number(card.0);
        self.sink.frame_begins(number, sync);
    }

    fn frame_read(&mut self, card: CardId, origin: Origin) {
        let number = self.number(card.0);
        self.sink.frame_read(number, origin);
    }

    fn columns(&mut self, card: CardId) -> Option<&mut Columns> {
        let number = self.number(card.0);
        self.sink.columns(number)
    }
}

impl Links {
    /// Takes the next captured frame, which arrived on [`Origin::link`]. Its items go to `sink`
    /// with their card number.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl Sink) {
        self.add_link(origin.link);
        let (wire, numbers) = &mut self.links[origin.link.index()];
        let mut sink = Numbered { link: origin.link, numbers, cards: &mut self.cards, sink };
        wire.push(origin, bytes, &mut sink);
        if let Some(last) = wire.cards().len().checked_sub(1) {
            sink.number(last);
        }
    }

    /// Sets the report that the card on a link sent before its first frame in this capture.
    pub fn continue_from(&mut self, link: LinkId, report: Report) {
        self.add_link(link);
        self.links[link.index()].0.continue_from(report);
    }

    fn add_link(&mut self, link: LinkId) {
        let at = link.index();
        if self.links.len() <= at {
            self.links.resize_with(at + 1, Default::default);
        }
    }

    /// The link of each card found so far, by card number.
    pub fn cards(&self) -> &[LinkId] {
        &self.cards
    }

    /// The counts of each card so far, without the frames of pending runs.
    pub fn counts(&self) -> LinkCounts {
        let mut sum = Sum::default();
        for (wire, numbers) in &self.links {
            sum.add(wire.counts(), |card| numbers[card]);
        }
        sum.into_counts()
    }

    /// Decodes the frames that still wait, closes all traces and returns the counts of each card.
    pub fn finish(self, sink: &mut impl Sink) -> LinkCounts {
        let Links { links, mut cards } = self;
        let mut sum = Sum::default();
        for ((wire, mut numbers), link) in links.into_iter().zip((0..).map(LinkId)) {
            let mut sink = Numbered { link, numbers: &mut numbers, cards: &mut cards, sink };
            let counts = wire.finish(&mut sink);
            sum.add(counts, |card| sink.number(card));
        }
        sum.into_counts()
    }
}

/// The counts of several links while they are added up.
#[derive(Default)]
struct Sum {
    counts: LinkCounts,
    /// The counts of the cards, with their numbers in the capture.
    cards: Vec<(CardId, CardCounts)>,
}

impl Sum {
    /// Adds the counts of a link. `number`: returns the number in the capture for the index of a
    /// card on the link.
    fn add(&mut self, link: LinkCounts, mut number: impl FnMut(usize) -> CardId) {
        self.counts.foreign_frames += link.foreign_frames;
        self.counts.stray_frames += link.stray_frames;
        let cards = link.cards.into_iter().enumerate();
        self.cards.extend(cards.map(|(card, counts)| (number(card), counts)));
    }

    /// The sum, with the cards in the order of their numbers.
    fn into_counts(mut self) -> LinkCounts {
        self.cards.sort_by_key(|(number, _)| *number);
        let cards = self.cards.into_iter().map(|(_, card)| card).collect();
        LinkCounts { cards, ..self.counts }
    }
}
