//! Derives the line records that a card must send for issued bursts, one by one.
//!
//! The rules are those of `docs/format.md`, line mode: bursts of one line are one record, which a
//! tag or a mark ends.

use std::collections::VecDeque;

use hmtt_format::event::MarkRegister;
use hmtt_format::{Event, MemoryDescription};

use super::controller::Issued;
use super::pattern::Note;
use crate::line_merge::LineMerge;

/// Iterates over the expected records.
pub struct Expected<I> {
    issued: I,
    memory: MemoryDescription,
    merge: LineMerge,
    /// Complete records that have not been returned.
    ready: VecDeque<Event>,
}

impl<I: Iterator<Item = Issued>> Expected<I> {
    /// Creates the iterator over the records for issued bursts.
    pub fn new(memory: &MemoryDescription, issued: I) -> Self {
        let merge = LineMerge::new(memory);
        Expected { issued, memory: memory.clone(), merge, ready: VecDeque::new() }
    }

    fn close(&mut self) {
        self.ready.extend(self.merge.close().map(Event::Access));
    }

    fn take(&mut self, Issued { access, note }: Issued) {
        let clock = access.clock;
        if note == Note::Tag {
            self.close();
            let within = (1u64 << self.memory.tag_window_log2) - 1;
            let (direction, offset) = (access.direction, (access.address.0 & within) as u32);
            self.ready.push_back(Event::Tag { clock, direction, offset, address: None });
            return;
        }
        self.ready.extend(self.merge.join(access).map(Event::Access));
        if let Note::Mark(register) = note {
            self.close();
            let register = MarkRegister(register.into());
            self.ready.push_back(Event::Mark { clock, register });
        }
    }
}

impl<I: Iterator<Item = Issued>> Iterator for Expected<I> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.ready.is_empty() {
            match self.issued.next() {
                Some(issued) => self.take(issued),
                None => {
                    self.close();
                    break;
                }
            }
        }
        self.ready.pop_front()
    }
}
