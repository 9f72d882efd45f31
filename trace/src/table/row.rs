//! Defines the row of a trace's table. A row can be interpreted without the rows around it.

use hmtt_format::record::CountGroup;
use hmtt_format::{Access, Cycles, Direction, FaultKind, PhysAddr};

use crate::decode::{DdrClock, Gap};
use crate::identity::CardId;

/// One row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The card that sent it.
    pub card: CardId,
    /// Content of the row.
    pub entry: Entry,
}

/// Content of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An access to a cache line, or a burst.
    Access(Access),
    /// An access to the tag window, which is both an access and an event of the traced software.
    Tag {
        /// Clock of the event.
        clock: Cycles,
        /// Read or write.
        direction: Direction,
        /// Offset in the window, in bytes.
        offset: u32,
        /// Physical address, while the window's base is known.
        address: Option<PhysAddr>,
    },
    /// An event that software put into the trace by a configuration command.
    Mark {
        /// Clock of the event.
        clock: Cycles,
        /// Number of the mark's register.
        register: u32,
    },
    /// A DDR command that JEDEC forbids in the state of the memory.
    Fault {
        /// Clock of the event.
        clock: Cycles,
        /// Rule that the command violates.
        kind: FaultKind,
        /// Rank * 16 + bank.
        bank: u8,
    },
    /// Consecutive accesses to one page.
    Page {
        /// Clock of the first access.
        clock: Cycles,
        /// First byte of the page.
        address: PhysAddr,
        /// Number of READs.
        reads: u32,
        /// Number of WRITEs.
        writes: u32,
        /// Clocks from the first access to the last.
        duration: u32,
    },
    /// Reads and writes in a time slice.
    Slice {
        /// First clock.
        clock: Cycles,
        /// Length in clocks, if it is known.
        length: Option<Cycles>,
        /// Whether the slice ended before its full length.
        partial: bool,
        /// Number of READs.
        reads: u32,
        /// Number of WRITEs.
        writes: u32,
    },
    /// The start of a dump of the card's analysis.
    Interval {
        /// Clock at which the dump began.
        clock: Cycles,
        /// Part of the table of hot pages that follows.
        part: u8,
    },
    /// A count of the analysis.
    Count {
        /// Number of the dump.
        dump: u8,
        /// Group of the counter.
        group: CountGroup,
        /// Index of the counter in its group.
        index: u16,
        /// Value of the counter.
        value: u32,
    },
    /// An entry of the table of hot pages.
    HotPage {
        /// Number of the dump.
        dump: u8,
        /// First byte of the page.
        address: PhysAddr,
        /// Lower bound of the accesses to the page.
        count: u32,
        /// Accesses to the page and to all pages that share its table entry.
        votes: u32,
    },
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
    /// Name of the entry's kind, the same in every format.
    pub const fn kind(&self) -> &'static str {
        match self {
            Entry::Access(_) => "access",
            Entry::Tag { .. } => "tag",
            Entry::Mark { .. } => "mark",
            Entry::Fault { .. } => "fault",
            Entry::Page { .. } => "page",
            Entry::Slice { .. } => "slice",
            Entry::Interval { .. } => "interval",
            Entry::Count { .. } => "count",
            Entry::HotPage { .. } => "hot_page",
            Entry::Gap(_) => "gap",
            Entry::Restart => "restart",
            Entry::DdrClock(_) => "ddr_clock",
            Entry::NoEnd => "no_end",
        }
    }

    /// Clock of the entry, if it has one. For a gap: the clock at which the trace continues, or else the last
    /// clock before the gap.
    pub fn clock(&self) -> Option<Cycles> {
        match *self {
            Entry::Access(access) => Some(access.clock),
            Entry::Tag { clock, .. }
            | Entry::Mark { clock, .. }
            | Entry::Fault { clock, .. }
            | Entry::Page { clock, .. }
            | Entry::Slice { clock, .. }
            | Entry::Interval { clock, .. } => Some(clock),
            Entry::Gap(gap) => gap.before.or(gap.after),
            Entry::Count { .. }
            | Entry::HotPage { .. }
            | Entry::Restart
            | Entry::DdrClock(_)
            | Entry::NoEnd => None,
        }
    }

    /// The access, if the entry is one; tags with a known address are accesses.
    pub fn access(&self) -> Option<Access> {
        match *self {
            Entry::Access(access) => Some(access),
            Entry::Tag { clock, direction, address: Some(address), .. } => {
                Some(Access { clock, direction, address })
            }
            _ => None,
        }
    }
}
