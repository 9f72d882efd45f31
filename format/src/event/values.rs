//! Reads the values that several kinds of events have in common.

use super::Event;
use crate::units::{Access, Cycles, Direction, PhysAddr};

/// The values of an event for which tables have columns; `None` if the event does not have the
/// value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Clock of the event, or its first clock if it lasts.
    pub clock: Option<Cycles>,
    /// Direction of an access or tag.
    pub direction: Option<Direction>,
    /// Address of an access, page or hot page; also of a tag if it is known.
    pub address: Option<PhysAddr>,
    /// Number of READs and number of WRITEs of a page or slice.
    pub counts: Option<(u32, u32)>,
    /// Duration of a page or slice, in clocks.
    pub duration: Option<Cycles>,
}

impl Event {
    /// The values for which tables have columns.
    pub fn values(&self) -> Values {
        let of_clock = |clock: Cycles| Values { clock: Some(clock), ..Values::default() };
        match *self {
            Event::Access(Access { clock, direction, address }) => {
                Values { direction: Some(direction), address: Some(address), ..of_clock(clock) }
            }
            Event::Tag { clock, direction, address, .. } => {
                Values { direction: Some(direction), address, ..of_clock(clock) }
            }
            Event::Mark { clock, .. }
            | Event::Fault { clock, .. }
            | Event::Interval { clock, .. } => of_clock(clock),
            Event::Page { clock, address, reads, writes, duration } => Values {
                address: Some(address),
                counts: Some((reads, writes)),
                duration: Some(Cycles(duration.into())),
                ..of_clock(clock)
            },
            Event::Slice { clock, length, reads, writes, .. } => Values {
                counts: Some((reads, writes)),
                duration: length.clocks(),
                ..of_clock(clock)
            },
            Event::Count { .. } => Values::default(),
            Event::HotPage { address, .. } => {
                Values { address: Some(address), ..Values::default() }
            }
        }
    }

    /// The clock of the event, see [`Values::clock`]; `None` for counts and hot pages, which have
    /// the clock of their interval.
    pub fn clock(&self) -> Option<Cycles> {
        let mut event = *self;
        event.clock_mut().copied()
    }

    /// The clock that [`Event::clock`] returns, by mutable reference.
    #[inline]
    pub fn clock_mut(&mut self) -> Option<&mut Cycles> {
        match self {
            Event::Access(access) => Some(&mut access.clock),
            Event::Tag { clock, .. }
            | Event::Mark { clock, .. }
            | Event::Fault { clock, .. }
            | Event::Page { clock, .. }
            | Event::Slice { clock, .. }
            | Event::Interval { clock, .. } => Some(clock),
            Event::Count { .. } | Event::HotPage { .. } => None,
        }
    }

    /// The access that the event represents: an access, or a tag whose address is known.
    pub fn access(&self) -> Option<Access> {
        match *self {
            Event::Access(access) => Some(access),
            Event::Tag { clock, direction, address: Some(address), .. } => {
                Some(Access { clock, direction, address })
            }
            _ => None,
        }
    }
}
