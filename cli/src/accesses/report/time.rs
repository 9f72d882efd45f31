//! Defines the time axis: in seconds, or in clocks or accesses if seconds are not known.

use hmtt::analysis::slices::SliceUnit;
use hmtt::analysis::timeline::MemoryTime;

use super::chart::{Axis, Unit};
use super::numbers::{counted, text};

/// The unit of time in charts: seconds, clocks or accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    unit: Option<SliceUnit>,
    /// Length of a slice in this unit.
    pub scale: f64,
}

/// The unit of time for slices: seconds if the length in seconds is known, otherwise `unit`.
pub fn time_of(unit: SliceUnit, length: u64, seconds: Option<f64>) -> Time {
    let unit = seconds.is_none().then_some(unit);
    Time { unit, scale: seconds.unwrap_or(length as f64) }
}

impl Time {
    /// The unit of time of a memory's slices.
    pub fn new(memory: &MemoryTime) -> Time {
        time_of(memory.slice_unit, memory.slice_length, memory.slice_seconds)
    }

    /// Whether two times have the same unit, so that they can share an axis.
    pub fn is_like(&self, other: &Time) -> bool {
        self.unit == other.unit
    }

    /// Whether the time is in seconds.
    pub fn is_seconds(&self) -> bool {
        self.unit.is_none()
    }

    /// The axis of the unit.
    pub fn axis(&self) -> Axis {
        match self.unit {
            None => Axis::new("time", Unit::Seconds),
            Some(SliceUnit::Clocks) => Axis::new("clocks", Unit::Count),
            Some(SliceUnit::Accesses) => Axis::new("accesses", Unit::Count),
        }
    }

    /// A time in words, in the unit of the axis.
    pub fn text(&self, at: f64) -> String {
        text(self.axis().unit, at)
    }

    /// A sentence with the length of slices, and the unit of the axis if that is not seconds.
    pub fn slicing(&self) -> String {
        let scale = self.scale;
        match self.unit {
            None => format!("{}.", text(Unit::Seconds, scale)),
            Some(SliceUnit::Clocks) => format!(
                "{}. The clock's period is not known: the axis is in clocks.",
                counted(scale, "clock")
            ),
            Some(SliceUnit::Accesses) => {
                format!(
                    "{}. Time is not known: the axis counts accesses.",
                    counted(scale, "access")
                )
            }
        }
    }
}
