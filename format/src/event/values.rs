//! Reads the values that events of several kinds have in common.

use super::Event;
use crate::units::{Access, Cycles, Direction, PhysAddr};

/// The values of an event that tables have columns for, each `None` if the event does not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Clock of the event; the first one if it lasts.
    pub clock: Option<Cycles>,
    /// Read or write, of an access or tag.
    pub direction: Option<Direction>,
    /// Address of an access, page or hot page; of a tag while it is known.
    pub address: Option<PhysAddr>,
    /// Numbers of READs and of WRITEs of a page or slice.
    pub counts: Option<(u32, u32)>,
    /// Duration of a page or slice, in clocks.
    pub duration: Option<Cycles>,
}

impl Event {
    /// The values that tables have columns for.
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
    /// that of their interval.
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

    /// The access, if the event is one with a known address: an access, or a tag whose address is
    /// known.
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
