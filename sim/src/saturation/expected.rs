//! Accesses to the line records a card must send of them, one by one.
//!
//! The rules are those of `docs/format.md`, line mode: bursts of one line are one record; a tag or a mark
//! ends it.

use std::collections::VecDeque;

use hmtt_format::record::TagSource;
use hmtt_format::{Event, MemoryDescription};

use super::controller::Made;
use super::pattern::Note;
use crate::line_merge::LineMerge;

/// Iterator over the records.
pub struct Expected<I> {
    made: I,
    memory: MemoryDescription,
    merge: LineMerge,
    /// Records that are complete.
    ready: VecDeque<Event>,
}

impl<I: Iterator<Item = Made>> Expected<I> {
    /// The records of `made`.
    pub fn new(memory: &MemoryDescription, made: I) -> Self {
        let merge = LineMerge::new(memory);
        Expected { made, memory: memory.clone(), merge, ready: VecDeque::new() }
    }

    fn close(&mut self) {
        self.ready.extend(self.merge.close().map(Event::Access));
    }

    fn take(&mut self, Made { access, note }: Made) {
        let clock = access.clock;
        if note == Note::Tag {
            self.close();
            let within = (1u64 << self.memory.tag_window_log2) - 1;
            let value = (access.address.0 & within) as u32;
            let source = TagSource::Window(access.direction);
            self.ready.push_back(Event::Tag { clock, source, value });
            return;
        }
        self.ready.extend(self.merge.join(access).map(Event::Access));
        if let Note::Mark(register) = note {
            self.close();
            let value = register.into();
            self.ready.push_back(Event::Tag { clock, source: TagSource::Mark, value });
        }
    }
}

impl<I: Iterator<Item = Made>> Iterator for Expected<I> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.ready.is_empty() {
            match self.made.next() {
                Some(made) => self.take(made),
                None => {
                    self.close();
                    break;
                }
            }
        }
        self.ready.pop_front()
    }
}
