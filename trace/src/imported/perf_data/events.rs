//! Parses the attributes of a recording: which fields the samples of each event have, and which
//! counters belong to each event.

use std::collections::HashMap;
use std::ops::Range;

use super::sample::{Event, Fields};
use super::u64_at;

/// Byte offset in an attribute of the set of fields that samples have.
const SAMPLE_TYPE: usize = 24;
/// Byte offset in an attribute of the format of counts.
const READ_FORMAT: usize = 32;
/// Byte offset in an attribute of the format of branches.
const BRANCH_TYPE: usize = 72;
/// Byte offset in an attribute of the set of registers that samples have.
const USER_REGISTERS: usize = 80;
/// Least length of an attribute, in bytes.
const FEWEST_BYTES: usize = 64;
/// Bytes of the section that follows each attribute: an offset and a length.
const SECTION_BYTES: usize = 16;
/// Maximum number of events that are read. A sample of a further event is an error.
const MOST_EVENTS: usize = 4096;

/// The events of a recording.
pub struct Events {
    events: Vec<Event>,
    /// Index of the event for each counter's identifier.
    counters: HashMap<u64, usize>,
}

impl Events {
    /// Parses the attributes. `begin`: the file up to its data. `place`: range of the attributes in
    /// `begin`. `bytes`: bytes of one attribute with its section. Returns `None` if the attributes
    /// are damaged.
    pub fn parse(begin: &[u8], place: Range<u64>, bytes: u64) -> Option<Events> {
        let within = |place: Range<u64>| {
            begin.get(usize::try_from(place.start).ok()?..usize::try_from(place.end).ok()?)
        };
        let bytes =
            usize::try_from(bytes).ok().filter(|bytes| *bytes >= FEWEST_BYTES + SECTION_BYTES)?;
        let (mut events, mut counters) = (Vec::new(), HashMap::new());
        for attribute in within(place)?.chunks_exact(bytes).take(MOST_EVENTS) {
            let (attribute, section) = attribute.split_at(bytes - SECTION_BYTES);
            let (start, length) = (u64_at(section, 0)?, u64_at(section, 8)?);
            let (identifiers, _) = within(start..start.checked_add(length)?)?.as_chunks();
            counters.extend(identifiers.iter().map(|id| (u64::from_le_bytes(*id), events.len())));
            events.push(Event {
                fields: Fields(u64_at(attribute, SAMPLE_TYPE)?),
                read_format: u64_at(attribute, READ_FORMAT)?,
                // Attributes of old versions of perf are shorter.
                branch_type: u64_at(attribute, BRANCH_TYPE).unwrap_or(0),
                user_registers: u64_at(attribute, USER_REGISTERS).unwrap_or(0),
            });
        }
        (!events.is_empty()).then_some(Events { events, counters })
    }

    /// The event of a sample. If there are several events, the sample contains the identifier of
    /// its counter. Returns `None` if this identifier is unknown, or if its offset is not the same
    /// for all events.
    pub fn of(&self, sample: &[u8]) -> Option<&Event> {
        let first = self.events.first()?;
        if self.events.len() == 1 {
            return Some(first);
        }
        let place = first.fields.place_of_counter()?;
        let is_common = |event: &Event| event.fields.place_of_counter() == Some(place);
        if !self.events.iter().all(is_common) {
            return None;
        }
        let counter = u64_at(sample, place)?;
        self.events.get(*self.counters.get(&counter)?)
    }
}
