//! The items of a trace to rows of a table.

use std::collections::HashMap;

use hmtt_format::Event;
use hmtt_format::record::TagSource;

use super::context::Context;
use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::decode::{Accesses, Item};

/// Writes the items of a trace. Reports are no rows: a writer that has room for them keeps them
/// elsewhere. Malformed frames are none either; the gaps they cause are.
pub struct Items<'a> {
    writer: Box<dyn Writer + 'a>,
    /// What the last report of each capture said, by its number.
    contexts: HashMap<u32, Context>,
}

impl<'a> Items<'a> {
    /// Writes to `writer`.
    pub fn new(writer: Box<dyn Writer + 'a>) -> Self {
        Items { writer, contexts: HashMap::new() }
    }

    /// Takes note of the interface that a card is on, before its items.
    pub fn interface(&mut self, capture: u32, name: &str) {
        self.writer.interface(capture, name);
    }

    /// All items will be of this card, so that it need not be named.
    pub fn only(&mut self, capture: u32) {
        self.writer.only(capture);
    }

    /// Writes one item of a card, which are numbered from 0.
    pub fn item(&mut self, capture: u32, item: &Item) -> Result<(), TableError> {
        let context = self.contexts.entry(capture).or_default();
        context.observe(item);
        if let Item::Report { report, .. } = item {
            self.writer.card(capture, report.as_ref().into());
        }
        match entry(item, context) {
            Some(entry) => self.writer.row(&Row { capture, entry }),
            None => Ok(()),
        }
    }

    /// Writes accesses of a card, whose items need not be made for it.
    pub fn accesses(&mut self, capture: u32, accesses: Accesses<'_>) -> Result<(), TableError> {
        if accesses.is_empty() {
            return Ok(());
        }
        self.writer.accesses(capture, accesses)
    }

    /// Completes the table.
    pub fn finish(self) -> Result<LeftOut, TableError> {
        self.writer.finish()
    }
}

/// The row an item is.
fn entry(item: &Item, context: &Context) -> Option<Entry> {
    Some(match item {
        Item::Event(event) => of_event(event, context),
        Item::Gap(gap) => Entry::Gap(**gap),
        Item::Restart => Entry::Restart,
        Item::DdrClock(ddr_clock) => Entry::DdrClock(*ddr_clock),
        Item::NoEnd => Entry::NoEnd,
        Item::Report { .. } | Item::Malformed { .. } => return None,
    })
}

fn of_event(event: &Event, context: &Context) -> Entry {
    match *event {
        Event::Access(access) => Entry::Access(access),
        Event::Tag { clock, source: TagSource::Mark, value } => {
            Entry::Mark { clock, register: value }
        }
        Event::Tag { clock, source: source @ TagSource::Window(direction), value } => {
            let address = context.tag_access(clock, source, value).map(|access| access.address);
            Entry::Tag { clock, direction, offset: value, address }
        }
        Event::Fault { clock, kind, bank } => Entry::Fault { clock, kind, bank },
        Event::Page { clock, address, reads, writes, duration } => {
            Entry::Page { clock, address, reads, writes, duration }
        }
        Event::Slice { clock, code, partial, reads, writes } => {
            let length = context.slice_length(code, partial);
            Entry::Slice { clock, length, partial: partial.is_some(), reads, writes }
        }
        Event::Interval { clock, part } => Entry::Interval { clock, part },
        Event::Count { dump, group, index, value } => Entry::Count { dump, group, index, value },
        Event::HotPage { dump, address, count, votes } => {
            Entry::HotPage { dump, address, count, votes }
        }
    }
}
