//! Defines [`Sink`], which receives the items that the decoders produce.

use hmtt_format::frame::Sync;

use super::columns::Columns;
use super::frame::Origin;
use super::item::Item;
use crate::identity::CardId;

/// Receives the items of all traces. The items of each card arrive in the order of its trace.
///
/// All decoders ([`CardTrace`](super::CardTrace), [`Wire`](super::Wire), [`Links`](super::Links))
/// pass their items to a sink. A closure that takes a [`CardId`] and an [`Item`] is a sink; wrapped
/// in [`Counted`] it gets no events. A sink that also implements [`Sink::columns`] gets accesses in
/// columns, which is the fastest.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// use hmtt::CardId;
/// use hmtt::decode::{Columns, Item, Sink};
///
/// /// Counts writes.
/// #[derive(Default)]
/// struct Writes {
///     columns: Columns,
/// }
///
/// impl Sink for Writes {
///     fn item(&mut self, _: CardId, _: Item) {}
///
///     fn columns(&mut self, _: CardId) -> Option<&mut Columns> {
///         Some(&mut self.columns)
///     }
/// }
///
/// let mut writes = Writes::default();
/// let mut reader = hmtt::capture_reader::CaptureReader::from_reader(CAPTURE)?;
/// while let Some(mut packet) = reader.next_packet()? {
///     packet.decode(&mut writes);
/// }
/// reader.finish(&mut writes);
/// assert_eq!(writes.columns.writes, [false, true, false, false]);
/// # Ok(())
/// # }
/// ```
pub trait Sink {
    /// Whether the sink takes events. If not, the decoder only counts events, and passes all other
    /// items.
    const EVENTS: bool = true;

    /// Takes an item of a card.
    fn item(&mut self, card: CardId, item: Item);

    /// Called before the items of a card's data frame, with the sync of the frame. For a frame that
    /// holds only accesses, the call may be omitted.
    fn frame_begins(&mut self, _card: CardId, _sync: &Sync) {}

    /// Called after all items of a card's frame from `origin` were passed.
    fn frame_read(&mut self, _card: CardId, _origin: Origin) {}

    /// The columns to which the accesses of a card are appended; if `None`, each access is passed
    /// as an item. At each call of [`Sink::item`], the columns already hold the accesses before the
    /// item, so their length gives the item's place among the accesses.
    fn columns(&mut self, _card: CardId) -> Option<&mut Columns> {
        None
    }
}

impl<F: FnMut(CardId, Item)> Sink for F {
    fn item(&mut self, card: CardId, item: Item) {
        self(card, item);
    }
}

/// A sink that passes all items except events to a closure `FnMut(CardId, Item)`. The decoder only
/// counts the events.
#[derive(Debug)]
pub struct Counted<F>(pub F);

impl<F: FnMut(CardId, Item)> Sink for Counted<F> {
    const EVENTS: bool = false;

    fn item(&mut self, card: CardId, item: Item) {
        (self.0)(card, item);
    }
}

/// The number of a card, and the sink to which its items are passed. The number is the card's index
/// on its wire.
pub(super) struct CardSink<'a, S>(pub usize, pub &'a mut S);

impl<S: Sink> CardSink<'_, S> {
    pub fn item(&mut self, item: Item) {
        self.1.item(CardId(self.0), item);
    }

    pub fn frame_begins(&mut self, sync: &Sync) {
        self.1.frame_begins(CardId(self.0), sync);
    }

    pub fn frame_read(&mut self, origin: Origin) {
        self.1.frame_read(CardId(self.0), origin);
    }

    pub fn columns(&mut self) -> Option<&mut Columns> {
        self.1.columns(CardId(self.0))
    }
}
