//! Defines the events of a trace: the content of each kind of record, with absolute clocks and
//! addresses.
//!
//! ```text
//! words of a frame -> Block -> Event -> Event's display           lines of the simulator
//!                              Event -> values, kind              columns of tables
//!                              Event <-> serde (feature `serde`)  objects of JSON lines
//! ```
//!
//! Everything that handles records uses the type [`Event`]: decoders, tables, reports, and the
//! models of the simulator. A record states less than an event can hold. The address of a tag and
//! the length of a whole slice follow from the card's last report, and [`Event::with_settings`]
//! adds them.
//!
//! With the feature `serde` an event is an object whose member `kind` is [`Event::kind`], and whose
//! other members have the names in `docs/glossary.md`. Members that are not known are ignored. The
//! aliases are the names in version 1 of tables.

mod mark;
#[cfg(feature = "serde")]
pub(crate) mod serialised;
mod slice_length;
mod text;
mod values;

pub use mark::MarkRegister;
pub use slice_length::SliceLength;
pub use values::Values;

use crate::fault::FaultKind;
use crate::record::CountGroup;
use crate::units::{Access, Cycles, Direction, PhysAddr};

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum Event {
    /// An access to a cache line or burst.
    Access(Access),
    /// An access to the tag window, which is both an access and an event of the traced software.
    Tag {
        /// Clock of the access.
        clock: Cycles,
        /// Read or write.
        direction: Direction,
        /// Offset in the window, in bytes.
        offset: u32,
        /// Physical address. Records do not state it; it is known only if the window's base is
        /// known.
        #[cfg_attr(
            feature = "serde",
            serde(
                default,
                skip_serializing_if = "Option::is_none",
                serialize_with = "serialised::prefixed_option"
            )
        )]
        address: Option<PhysAddr>,
    },
    /// A mark: an event that software put into the trace by a configuration command.
    Mark {
        /// Clock of the access that completed the command.
        clock: Cycles,
        /// Register of the mark.
        #[cfg_attr(feature = "serde", serde(flatten))]
        register: MarkRegister,
    },
    /// A command that violates a rule of the protocol.
    Fault {
        /// Clock of the command.
        clock: Cycles,
        /// The violated rule.
        #[cfg_attr(feature = "serde", serde(rename = "fault"))]
        kind: FaultKind,
        /// Rank * 16 + bank.
        bank: u8,
    },
    /// Consecutive accesses to one page.
    Page {
        /// Clock of the first access.
        clock: Cycles,
        /// First byte of the page.
        #[cfg_attr(feature = "serde", serde(serialize_with = "serialised::prefixed"))]
        address: PhysAddr,
        /// Number of READs.
        reads: u32,
        /// Number of WRITEs.
        writes: u32,
        /// Clocks from the first access to the last.
        #[cfg_attr(feature = "serde", serde(rename = "duration_clocks", alias = "duration"))]
        duration: u32,
    },
    /// Reads and writes in a time slice.
    Slice {
        /// First clock of the slice.
        clock: Cycles,
        /// Code of the length that was set, see [`crate::config::slice_micros`]; `None` if the
        /// event is from a table, which holds the length instead.
        #[cfg_attr(feature = "serde", serde(skip))]
        code: Option<u8>,
        /// Length of the slice.
        #[cfg_attr(feature = "serde", serde(flatten))]
        length: SliceLength,
        /// Number of READs.
        reads: u32,
        /// Number of WRITEs.
        writes: u32,
    },
    /// The start of a dump of the analysis.
    Interval {
        /// Clock at which the dump began.
        clock: Cycles,
        /// Part of the table of hot pages that follows, or [`crate::record::ALL_PARTS`].
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
        #[cfg_attr(feature = "serde", serde(serialize_with = "serialised::prefixed"))]
        address: PhysAddr,
        /// Lower bound of the accesses to the page; the upper bound is [`hot_page_at_most`].
        count: u32,
        /// Accesses to the page and to all pages that share its table entry.
        votes: u32,
    },
}

impl Event {
    /// The kinds of events, as [`Event::kind`] returns them.
    pub const KINDS: [&'static str; 9] =
        ["access", "tag", "mark", "fault", "page", "slice", "interval", "count", "hot_page"];

    /// Name of the event's kind, the same in every format.
    pub const fn kind(&self) -> &'static str {
        Self::KINDS[match self {
            Event::Access(_) => 0,
            Event::Tag { .. } => 1,
            Event::Mark { .. } => 2,
            Event::Fault { .. } => 3,
            Event::Page { .. } => 4,
            Event::Slice { .. } => 5,
            Event::Interval { .. } => 6,
            Event::Count { .. } => 7,
            Event::HotPage { .. } => 8,
        }]
    }

    /// Adds values that follow from the settings of the card. The address of a tag is added if the
    /// base of the window is known (`tag_window`) and does not contradict the offset. The length of
    /// a slice is added if the clock period is known (`tck_ps`, in picoseconds).
    pub fn with_settings(mut self, tag_window: Option<u64>, tck_ps: Option<u32>) -> Event {
        match &mut self {
            Event::Tag { offset, address: address @ None, .. } => {
                let sum = tag_window.and_then(|base| base.checked_add(u64::from(*offset)));
                *address = sum.map(PhysAddr).filter(|sum| is_at_tag_offset(*sum, *offset));
            }
            Event::Slice { code: Some(code), length, .. } if length.clocks().is_none() => {
                *length = tck_ps.map_or(*length, |tck_ps| SliceLength::of_code(*code, tck_ps));
            }
            _ => {}
        }
        self
    }
}

/// Whether an address may be at an offset in bytes of a tag window: the window's base is a multiple
/// of its size, so the offset is the low bits of the address.
pub fn is_at_tag_offset(address: PhysAddr, offset: u32) -> bool {
    let low = (u64::from(offset) + 1).next_power_of_two() - 1;
    address.0 & low == u64::from(offset)
}

/// Upper bound of the accesses to the page of an [`Event::HotPage`].
pub const fn hot_page_at_most(count: u32, votes: u32) -> u32 {
    ((count as u64 + votes as u64) / 2) as u32
}

/// Upper bound of the accesses to any other page of the same bucket.
pub const fn other_page_at_most(count: u32, votes: u32) -> u32 {
    votes.saturating_sub(count) / 2
}

#[cfg(test)]
mod tests;
