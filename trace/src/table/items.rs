//! Converts the items of a trace to rows, and passes the rows to a writer.

use std::collections::HashMap;

use super::context::Context;
use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::decode::{Accesses, Item};
use crate::identity::CardId;

/// A writer of the items of a trace. Reports do not become rows: a writer whose format has a place
/// for them stores them separately. Malformed frames do not become rows either, but the gaps that
/// they cause do.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hmtt::table::{Items, jsonl::JsonlWriter};
///
/// let mut trace = hmtt::Trace::from_reader(CAPTURE)?;
/// let mut file = Vec::new();
/// let mut items = Items::new(Box::new(JsonlWriter::new(&mut file)?));
/// for next in trace.items() {
///     let (card, item) = next?;
///     items.item(card, &item)?;
/// }
/// items.finish()?;
/// assert!(file.starts_with(br#"{"kind":"access","clock":22,"direction":"R","address":"0x12348140"}"#));
/// # Ok(())
/// # }
/// ```
pub struct Items<'a> {
    writer: Box<dyn Writer + 'a>,
    /// The context of each card's last report, by the card.
    contexts: HashMap<CardId, Context>,
}

impl<'a> Items<'a> {
    /// Creates a converter that passes rows to `writer`.
    pub fn new(writer: Box<dyn Writer + 'a>) -> Self {
        Items { writer, contexts: HashMap::new() }
    }

    /// Stores the name of a card's interface. Must be called before the card's items are written.
    pub fn interface(&mut self, card: CardId, name: &str) {
        self.writer.interface(card, name);
    }

    /// States that all items are of this card, so that the file need not name it.
    pub fn only(&mut self, card: CardId) {
        self.writer.only(card);
    }

    /// Writes one item of a card.
    ///
    /// # Errors
    /// As [`Writer::row`].
    pub fn item(&mut self, card: CardId, item: &Item) -> Result<(), TableError> {
        let context = self.contexts.entry(card).or_default();
        context.observe(item);
        if let Item::Report { report, .. } = item {
            self.writer.card(card, report.as_ref().into());
        }
        match entry(item, context) {
            Some(entry) => self.writer.row(&Row { card, entry }),
            None => Ok(()),
        }
    }

    /// Writes accesses of a card in columns, which is faster than one item for each.
    ///
    /// # Errors
    /// As [`Writer::row`].
    pub fn accesses(&mut self, card: CardId, accesses: Accesses<'_>) -> Result<(), TableError> {
        if accesses.is_empty() {
            return Ok(());
        }
        self.writer.accesses(card, accesses)
    }

    /// Completes the table, and returns counts of the rows and values that the format could not
    /// represent.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn finish(self) -> Result<LeftOut, TableError> {
        self.writer.finish()
    }
}

/// The content of the row for an item; `None` for items that do not become rows.
fn entry(item: &Item, context: &Context) -> Option<Entry> {
    Some(match item {
        Item::Event(event) => Entry::Event(context.complete(*event)),
        Item::Gap(gap) => Entry::Gap(**gap),
        Item::Restart => Entry::Restart,
        Item::DdrClock(ddr_clock) => Entry::DdrClock(*ddr_clock),
        Item::NoEnd => Entry::NoEnd,
        Item::Report { .. } | Item::Malformed { .. } => return None,
    })
}
