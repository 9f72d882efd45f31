//! Finds where the card's tags, marks and faults end its other records.

use std::collections::BTreeSet;

use hmtt_format::{Access, Event, MemoryDescription};

/// Clocks at which the card recorded anything other than an ordinary access.
#[derive(Clone, Debug, Default)]
pub struct Interruptions {
    /// Clocks of accesses to the tag window.
    window: BTreeSet<u64>,
    /// Clocks of tags, marks and faults.
    all: BTreeSet<u64>,
    window_bytes: u64,
}

impl Interruptions {
    /// Collects the clocks from the card's events.
    pub fn new(events: &[Event], memory: &MemoryDescription) -> Self {
        let mut interruptions =
            Interruptions { window_bytes: 1 << memory.tag_window_log2, ..Self::default() };
        for event in events {
            match event {
                Event::Tag { clock, .. } => {
                    interruptions.window.insert(clock.0);
                    interruptions.all.insert(clock.0);
                }
                Event::Mark { clock, .. } | Event::Fault { clock, .. } => {
                    interruptions.all.insert(clock.0);
                }
                _ => {}
            }
        }
        interruptions
    }

    /// Returns the tag that an access must have become, if the card recorded a tag at its clock. A
    /// truth file does not say whether the access is a tag; offset and direction are checked.
    pub fn tag(&self, access: &Access) -> Option<Event> {
        self.window.contains(&access.clock.0).then(|| Event::Tag {
            clock: access.clock,
            direction: access.direction,
            offset: (access.address.0 & (self.window_bytes - 1)) as u32,
            address: None,
        })
    }

    /// Whether anything was recorded between two accesses. A mark has the clock of the access that
    /// completed it, and follows that access.
    pub fn between(&self, first: u64, second: u64) -> bool {
        first < second && self.all.range(first..second).next().is_some()
    }
}
