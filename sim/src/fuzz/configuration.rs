//! Applies the settings that software makes by accesses, and records accesses and faults
//! accordingly: configuration commands, the tag window, marks, stop and start, lines or bursts.
//! Models the settings of line mode in `docs/format.md`.

use hmtt_format::config::{self, DEFAULT_TIMEOUT, Granularity, REGISTERS_LOG2, is_mark};
use hmtt_format::event::MarkRegister;
use hmtt_format::{Access, Event, MemoryDescription, PhysAddr};

use crate::line_merge::LineMerge;

/// The card's settings, as software has made them.
#[derive(Clone)]
pub struct Configuration {
    memory: MemoryDescription,
    running: bool,
    base: u64,
    window: bool,
    granularity: Granularity,
    merge: LineMerge,
    /// Register, number of accesses so far, and clock of the last access.
    sequence: Option<(u16, u8, u64)>,
}

impl Configuration {
    /// The settings after power-on with the run switch on.
    pub fn new(memory: &MemoryDescription, granularity: Granularity) -> Self {
        Configuration {
            memory: memory.clone(),
            running: true,
            base: 0,
            window: false,
            granularity,
            merge: LineMerge::new(memory),
            sequence: None,
        }
    }

    /// Whether the card records.
    pub const fn running(&self) -> bool {
        self.running
    }

    /// Records an access, then applies the configuration command that it completes.
    pub fn access(&mut self, access: Access, events: &mut Vec<Event>) {
        let (clock, address) = (access.clock, access.address.0);
        let size = self.memory.tag_window_log2;
        if self.running && self.window && address >> size == self.base >> size {
            let (direction, offset) = (access.direction, (address & ((1 << size) - 1)) as u32);
            self.other(Event::Tag { clock, direction, offset, address: None }, events);
        } else if self.running && self.granularity == Granularity::Line {
            events.extend(self.merge.join(access).map(Event::Access));
        } else if self.running {
            let log2 = self.memory.burst_log2();
            let address = PhysAddr(address >> log2 << log2);
            events.push(Event::Access(Access { address, ..access }));
        }
        if let Some(register) = self.completed(access) {
            self.obey(register, events);
            if is_mark(register) {
                let register = MarkRegister(register.into());
                self.other(Event::Mark { clock, register }, events);
            }
        }
    }

    /// Records an event that is not an access to a line or burst.
    pub fn other(&mut self, event: Event, events: &mut Vec<Event>) {
        if self.running {
            self.close(events);
            events.push(event);
        }
    }

    /// Records the open line, to which further bursts might have been added.
    pub fn close(&mut self, events: &mut Vec<Event>) {
        events.extend(self.merge.close().map(Event::Access));
    }

    fn completed(&mut self, access: Access) -> Option<u16> {
        let (clock, stride) = (access.clock.0, self.memory.config_stride_log2);
        if access.address.0 >> (stride + REGISTERS_LOG2) != 0 {
            return None;
        }
        let register = (access.address.0 >> stride) as u16;
        let count = match self.sequence {
            Some((same, count, at))
                if same == register && clock - at <= u64::from(DEFAULT_TIMEOUT) =>
            {
                count + 1
            }
            _ => 1,
        };
        let complete = count == self.memory.config_count;
        self.sequence = (!complete).then_some((register, count, clock));
        complete.then_some(register)
    }

    fn obey(&mut self, register: u16, events: &mut Vec<Event>) {
        match register {
            config::START => self.running = true,
            config::STOP => self.running = false,
            config::TAG_ON => self.window = true,
            config::TAG_OFF => self.window = false,
            config::GRANULARITY_LINE => self.granularity = Granularity::Line,
            config::GRANULARITY_BURST => self.granularity = Granularity::Burst,
            digit if digit & !15 == config::TAG_NIBBLE_FIRST => {
                self.base = (self.base << 4 | u64::from(digit & 15)) & ((1 << 40) - 1);
            }
            _ => return,
        }
        // A record never covers accesses before and after a setting.
        self.close(events);
    }
}
