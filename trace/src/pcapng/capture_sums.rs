//! Adds up the Interface Statistics Blocks of an interface over all captures in a file.
//!
//! A block counts from the start of its capture, so only the latest block of a capture is valid.
//! The counts of several captures are added up. Blocks with the same start time belong to the same
//! capture, whatever their sections are, because files of a series may have been concatenated.
//! Blocks without a start time belong to the same capture if they are in the same section.

use std::collections::BTreeMap;

use crate::pcapng::InterfaceStatistics;

/// Identifies a capture of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capture {
    /// The start time that its blocks state, in the interface's ticks.
    Started(u64),
    /// The number of the section that its blocks are in.
    Section(u64),
}

/// The latest counts of each capture of an interface, and their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureSums {
    /// For each capture, the time of its latest block, in the interface's ticks, and that block's
    /// counts.
    latest: BTreeMap<Capture, (u64, InterfaceStatistics)>,
    received_frames: Sum,
    interface_dropped_frames: Sum,
    kernel_dropped_frames: Sum,
}

impl CaptureSums {
    /// Adds the counts that a capture had at `time`. Returns whether they are the capture's latest
    /// counts.
    pub fn note(&mut self, capture: Capture, time: u64, counts: &InterfaceStatistics) -> bool {
        let (noted, before) = self.latest.entry(capture).or_default();
        if *noted > time {
            return false;
        }
        *noted = time;
        let before = std::mem::replace(before, *counts);
        self.received_frames.replace(before.received_frames, counts.received_frames);
        self.interface_dropped_frames
            .replace(before.interface_dropped_frames, counts.interface_dropped_frames);
        self.kernel_dropped_frames
            .replace(before.kernel_dropped_frames, counts.kernel_dropped_frames);
        true
    }

    /// The sums of the latest counts over all captures.
    pub fn total(&self) -> InterfaceStatistics {
        InterfaceStatistics {
            received_frames: self.received_frames.value(),
            interface_dropped_frames: self.interface_dropped_frames.value(),
            interface_missed_frames: None,
            kernel_dropped_frames: self.kernel_dropped_frames.value(),
        }
    }
}

/// A sum of counts, some of which are not known. 128 bits are enough for the sum of all counts in a
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    sum: u128,
    known: u64,
}

impl Sum {
    fn replace(&mut self, before: Option<u64>, now: Option<u64>) {
        self.sum = self.sum + u128::from(now.unwrap_or(0)) - u128::from(before.unwrap_or(0));
        self.known = self.known + u64::from(now.is_some()) - u64::from(before.is_some());
    }

    /// The sum of the known counts, or `u64::MAX` if it is larger; `None` if no count is known.
    fn value(self) -> Option<u64> {
        (self.known != 0).then(|| u64::try_from(self.sum).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(count: u64) -> InterfaceStatistics {
        InterfaceStatistics { kernel_dropped_frames: Some(count), ..Default::default() }
    }

    #[test]
    fn the_latest_counts_of_a_capture_are_used_in_any_order() {
        let (first, second) = (Capture::Started(7), Capture::Started(8));
        let mut counted = CaptureSums::default();
        assert!(counted.note(first, 20, &drops(5)));
        assert!(!counted.note(first, 10, &drops(3)));
        assert!(counted.note(second, 10, &drops(100)));
        assert!(counted.note(first, 20, &drops(6)));
        assert_eq!(counted.total(), drops(106));
    }

    #[test]
    fn counts_that_no_capture_can_have_do_not_overflow() {
        let mut counted = CaptureSums::default();
        for section in 0..3 {
            counted.note(Capture::Section(section), 0, &drops(u64::MAX));
        }
        assert_eq!(counted.total(), drops(u64::MAX));
        for section in 0..3 {
            counted.note(Capture::Section(section), 0, &drops(section));
        }
        assert_eq!(counted.total(), drops(3));
        counted.note(Capture::Section(0), 1, &InterfaceStatistics::default());
        assert_eq!(counted.total(), drops(3));
    }
}
