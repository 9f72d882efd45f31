//! Defines the length of a time slice.

use crate::config::slice_clocks;
use crate::units::Cycles;

/// Length of a time slice, in clocks, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Members", into = "Members"))]
pub enum SliceLength {
    /// The length in clocks is not known. The record of a whole slice states only a code, and the
    /// number of clocks depends on the clock period.
    Unknown {
        /// Whether the length differs from the code's length. The card states such a length, but a
        /// table may lack it.
        partial: bool,
    },
    /// The length that the slice's code selects.
    Whole(Cycles),
    /// Another length, which the record states. It is shorter if the capture started or stopped
    /// during the slice or a setting ended it. It is longer if the slice is the first one after its
    /// code was set, or the event queue was full at its end.
    Partial(Cycles),
}

impl SliceLength {
    /// Creates a length from its two values in tables: the clocks, and whether the slice is
    /// partial.
    pub const fn new(clocks: Option<Cycles>, partial: bool) -> Self {
        match clocks {
            None => SliceLength::Unknown { partial },
            Some(clocks) if partial => SliceLength::Partial(clocks),
            Some(clocks) => SliceLength::Whole(clocks),
        }
    }

    /// Creates a length from a record. `partial`: clocks that the record states; `None` for a whole
    /// slice, whose length is not known yet.
    pub const fn of_record(partial: Option<Cycles>) -> Self {
        SliceLength::new(partial, partial.is_some())
    }

    /// The length that a code selects. `tck_ps`: clock period in picoseconds.
    pub const fn of_code(code: u8, tck_ps: u32) -> Self {
        SliceLength::Whole(Cycles(slice_clocks(code, tck_ps) as u64))
    }

    /// Whether the length differs from the length of the slice's code.
    pub const fn is_partial(self) -> bool {
        matches!(self, SliceLength::Unknown { partial: true } | SliceLength::Partial(_))
    }

    /// The length in clocks, if it is known.
    pub const fn clocks(self) -> Option<Cycles> {
        match self {
            SliceLength::Unknown { .. } => None,
            SliceLength::Whole(clocks) | SliceLength::Partial(clocks) => Some(clocks),
        }
    }
}

/// The members that state a length in the serialised object of a slice.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Members {
    #[serde(alias = "length")]
    duration_clocks: Option<Cycles>,
    partial: bool,
}

#[cfg(feature = "serde")]
impl From<Members> for SliceLength {
    fn from(members: Members) -> Self {
        SliceLength::new(members.duration_clocks, members.partial)
    }
}

#[cfg(feature = "serde")]
impl From<SliceLength> for Members {
    fn from(length: SliceLength) -> Self {
        Members { duration_clocks: length.clocks(), partial: length.is_partial() }
    }
}
