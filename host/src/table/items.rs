//! The items of a trace to rows of a table.

use hmtt_format::record::TagSource;
use hmtt_format::{Access, Direction, Event};

use super::{Accesses, Entry, LeftOut, Row, TableError, Writer};
use crate::decode::Item;
use crate::report::Context;

/// Writes the items of a trace. Reports are no rows: a writer that has room for them keeps them
/// elsewhere. Malformed frames are none either; the gaps they cause are.
pub struct Items {
    writer: Box<dyn Writer>,
    /// What the last report of each capture said, by its number.
    contexts: Vec<(u32, Context)>,
    batch: Batch,
}

/// Accesses in a batch.
const BATCH_ROWS: usize = 4096;

/// Accesses of one capture that have not been passed on yet.
#[derive(Default)]
struct Batch {
    capture: u32,
    clocks: Vec<u64>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
}

impl Batch {
    #[inline]
    fn push(&mut self, access: Access) {
        self.clocks.push(access.clock.0);
        self.addresses.push(access.address.0);
        self.writes.push(access.direction == Direction::Write);
    }

    fn clear(&mut self) {
        self.clocks.clear();
        self.addresses.clear();
        self.writes.clear();
    }
}

impl Items {
    /// Writes to `writer`.
    pub fn new(writer: Box<dyn Writer>) -> Self {
        Items { writer, contexts: Vec::new(), batch: Batch::default() }
    }

    /// Writes one item of the link or card `capture`; 0 where there is one.
    #[inline]
    pub fn item(&mut self, capture: u32, item: &Item) -> Result<(), TableError> {
        let Item::Event(Event::Access(access)) = item else { return self.other(capture, item) };
        if capture != self.batch.capture || self.batch.clocks.len() >= BATCH_ROWS {
            self.pass_on()?;
            self.batch.capture = capture;
        }
        self.batch.push(*access);
        Ok(())
    }

    fn other(&mut self, capture: u32, item: &Item) -> Result<(), TableError> {
        self.pass_on()?;
        let context = context(&mut self.contexts, capture);
        context.observe(item);
        if let Item::Report { report, .. } = item {
            self.writer.card(capture, report.as_ref().into());
        }
        match entry(item, context) {
            Some(entry) => self.writer.row(&Row { capture, entry }),
            None => Ok(()),
        }
    }

    /// Writes accesses, whose items need not be made for it.
    pub fn accesses(&mut self, capture: u32, accesses: Accesses<'_>) -> Result<(), TableError> {
        self.pass_on()?;
        self.writer.accesses(capture, accesses)
    }

    /// Completes the table.
    pub fn finish(mut self) -> Result<LeftOut, TableError> {
        self.pass_on()?;
        self.writer.finish()
    }

    fn pass_on(&mut self) -> Result<(), TableError> {
        let Batch { capture, clocks, addresses, writes } = &self.batch;
        self.writer.accesses(*capture, Accesses { clocks, addresses, writes })?;
        self.batch.clear();
        Ok(())
    }
}

fn context(contexts: &mut Vec<(u32, Context)>, capture: u32) -> &mut Context {
    let known = contexts.iter().position(|(of, _)| *of == capture);
    let at = known.unwrap_or_else(|| {
        contexts.push((capture, Context::default()));
        contexts.len() - 1
    });
    &mut contexts[at].1
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
