//! The card's tags, marks and faults to where they cut its other records.

use std::collections::BTreeSet;

use hmtt_format::record::TagSource;
use hmtt_format::{Access, Event, MemoryDescription};

/// Clocks at which something other than an ordinary access was recorded.
#[derive(Clone, Debug, Default)]
pub struct Interruptions {
    /// Accesses to the tag window.
    window: BTreeSet<u64>,
    /// Those, marks and faults.
    all: BTreeSet<u64>,
    window_bytes: u64,
}

impl Interruptions {
    /// Collects them from what the card sent.
    pub fn new(events: &[Event], memory: &MemoryDescription) -> Self {
        let mut found =
            Interruptions { window_bytes: 1 << memory.tag_window_log2, ..Self::default() };
        for event in events {
            match event {
                Event::Tag { clock, source, .. } => {
                    if matches!(source, TagSource::Window(_)) {
                        found.window.insert(clock.0);
                    }
                    found.all.insert(clock.0);
                }
                Event::Fault { clock, .. } => {
                    found.all.insert(clock.0);
                }
                _ => {}
            }
        }
        found
    }

    /// The Tag an access must have become, if the card made one of it. Whether it should have is not
    /// in a truth file; that offset and direction are right is.
    pub fn tag(&self, access: &Access) -> Option<Event> {
        self.window.contains(&access.clock.0).then(|| Event::Tag {
            clock: access.clock,
            source: TagSource::Window(access.direction),
            value: (access.address.0 & (self.window_bytes - 1)) as u32,
        })
    }

    /// Whether something came between two accesses. A mark has the clock of the access that
    /// completed it and comes after it.
    pub fn between(&self, first: u64, second: u64) -> bool {
        first < second && self.all.range(first..second).next().is_some()
    }
}
