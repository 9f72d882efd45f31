//! Defines the row of a trace's table. A row can be interpreted without the rows around it.

use hmtt_format::event::Values;
use hmtt_format::{Access, Cycles, Event};

use crate::decode::{DdrClock, Gap};
use crate::identity::CardId;

/// One row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The card that sent the record, or whose trace has the gap.
    pub card: CardId,
    /// The content of the row.
    pub entry: Entry,
}

/// The content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A record. It includes the address of a tag and the length of a slice if the card's last
    /// report determines them.
    Event(Event),
    /// A counted loss at this place.
    Gap(Gap),
    /// A restart of the card: its clock starts at 0 again.
    Restart,
    /// The card's DDR clock was lost or found again.
    DdrClock(DdrClock),
    /// The end of a session that has no end frame.
    NoEnd,
}

impl Entry {
    /// Name of the entry's kind. It is the same in every format.
    pub const fn kind(&self) -> &'static str {
        match self {
            Entry::Event(event) => event.kind(),
            Entry::Gap(_) => "gap",
            Entry::Restart => "restart",
            Entry::DdrClock(_) => "ddr_clock",
            Entry::NoEnd => "no_end",
        }
    }

    /// Values of the columns that several kinds share. The clock of a gap is the first clock after
    /// the gap or, if it is not known, the last clock before the gap.
    pub fn values(&self) -> Values {
        match self {
            Entry::Event(event) => event.values(),
            Entry::Gap(gap) => Values { clock: gap.before.or(gap.after), ..Values::default() },
            Entry::Restart | Entry::DdrClock(_) | Entry::NoEnd => Values::default(),
        }
    }

    /// Clock of the entry, as in [`Entry::values`]; `None` if it has none.
    pub fn clock(&self) -> Option<Cycles> {
        self.values().clock
    }

    /// The access, if the entry is an access or a tag with a known address.
    pub fn access(&self) -> Option<Access> {
        match self {
            Entry::Event(event) => event.access(),
            _ => None,
        }
    }
}

/// An access as the content of a row.
impl From<Access> for Entry {
    fn from(access: Access) -> Self {
        Entry::Event(Event::Access(access))
    }
}
