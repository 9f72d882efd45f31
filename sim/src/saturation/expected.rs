//! Accesses to the line records a card must send of them, one by one.
//!
//! The rules are those of `docs/format.md`, line mode: bursts of one line are one record; a tag or a mark
//! ends it.

use std::collections::VecDeque;

use hmtt_format::record::TagSource;
use hmtt_format::{Access, Event, MemoryDescription, PhysAddr};

use super::controller::Made;
use super::pattern::Note;

/// A record that more bursts may still join.
#[derive(Clone, Copy)]
struct Open {
    record: Access,
    seen: u64,
}

/// Iterator over the records.
pub struct Expected<I> {
    made: I,
    memory: MemoryDescription,
    open: Option<Open>,
    /// Records that are complete.
    ready: VecDeque<Event>,
}

impl<I: Iterator<Item = Made>> Expected<I> {
    /// The records of `made`.
    pub fn new(memory: &MemoryDescription, made: I) -> Self {
        Expected { made, memory: memory.clone(), open: None, ready: VecDeque::new() }
    }

    fn close(&mut self) {
        self.ready.extend(self.open.take().map(|open| Event::Access(open.record)));
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
        self.join(access);
        if let Note::Mark(register) = note {
            self.close();
            let value = register.into();
            self.ready.push_back(Event::Tag { clock, source: TagSource::Mark, value });
        }
    }

    fn join(&mut self, access: Access) {
        let line_log2 = self.memory.line_log2;
        let line = PhysAddr(access.address.0 >> line_log2 << line_log2);
        let burst = 1 << ((access.address.0 - line.0) >> self.memory.burst_log2());
        let window = u64::from(self.memory.merge_window);
        let joins = |open: &&mut Open| {
            open.record.address == line
                && open.record.direction == access.direction
                && open.seen & burst == 0
                && access.clock.0 - open.record.clock.0 <= window
        };
        if let Some(open) = self.open.as_mut().filter(joins) {
            open.seen |= burst;
            return;
        }
        self.close();
        self.open = Some(Open { record: Access { address: line, ..access }, seen: burst });
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
