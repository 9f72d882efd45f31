//! A row of a trace's table, whole without what stands around it.

use hmtt_format::record::CountGroup;
use hmtt_format::{Access, Cycles, Direction, FaultKind, PhysAddr};

use crate::decode::{DdrClock, Gap};

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which card it came from: from 0, one less than the number that people see.
    pub capture: u32,
    /// What happened.
    pub entry: Entry,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An access to a line or burst.
    Access(Access),
    /// An access to the tag window: an access and an event of software in one.
    Tag {
        /// When.
        clock: Cycles,
        /// Read or write.
        direction: Direction,
        /// Byte offset in the window.
        offset: u32,
        /// What was accessed, while the window's base is known.
        address: Option<PhysAddr>,
    },
    /// An event software put into the trace by a command.
    Mark {
        /// When.
        clock: Cycles,
        /// Its register.
        register: u32,
    },
    /// A refused command.
    Fault {
        /// When.
        clock: Cycles,
        /// Why.
        kind: FaultKind,
        /// Rank * 16 + bank.
        bank: u8,
    },
    /// A run of accesses to a page.
    Page {
        /// Clock of the first access.
        clock: Cycles,
        /// First byte of the page.
        address: PhysAddr,
        /// READs.
        reads: u32,
        /// WRITEs.
        writes: u32,
        /// Clocks from the first access to the last.
        duration: u32,
    },
    /// Reads and writes in a time slice.
    Slice {
        /// First clock.
        clock: Cycles,
        /// In clocks, if known.
        length: Option<Cycles>,
        /// It was cut short.
        partial: bool,
        /// READs.
        reads: u32,
        /// WRITEs.
        writes: u32,
    },
    /// A dump of the analysis begins.
    Interval {
        /// The clock at which it began.
        clock: Cycles,
        /// Part of the table of hot pages that follows.
        part: u8,
    },
    /// A count of the analysis.
    Count {
        /// Number of the dump.
        dump: u8,
        /// What is counted.
        group: CountGroup,
        /// Which of them.
        index: u16,
        /// How many.
        value: u32,
    },
    /// An entry of the table of hot pages.
    HotPage {
        /// Number of the dump.
        dump: u8,
        /// First byte of the page.
        address: PhysAddr,
        /// Its accesses, at least.
        count: u32,
        /// Accesses to it and to all pages that share its entry.
        votes: u32,
    },
    /// Something is missing here.
    Gap(Gap),
    /// The card started to count anew.
    Restart,
    /// The card's DDR clock was lost or found again.
    DdrClock(DdrClock),
    /// The session has no end frame.
    NoEnd,
}

/// The groups of counts there are, for readers of their names.
const GROUPS: [CountGroup; 5] = [
    CountGroup::RowHits,
    CountGroup::RowMisses,
    CountGroup::RowConflicts,
    CountGroup::Reuse,
    CountGroup::Other,
];

/// The group with a name.
pub(super) fn group_named(name: &str) -> Option<CountGroup> {
    GROUPS.into_iter().find(|group| group.name() == name)
}

/// The fault with a name.
pub(super) fn fault_named(name: &str) -> Option<FaultKind> {
    FaultKind::ALL.into_iter().find(|kind| kind.name() == name)
}

impl Entry {
    /// Its name in every format.
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

    /// Its clock, if it has one; of a gap the one from which the trace goes on, or else the last
    /// before.
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

    /// The access it is, tags with a known address included.
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
