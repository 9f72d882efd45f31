//! Pins to the events a card must send in line mode.

use hmtt_format::config::Granularity;
use hmtt_format::{Event, MemoryDescription, Pins};

use super::configuration::Configuration;
use super::pin_reader::{PinReader, Seen};

/// The reader of the pins, and what becomes of what it sees.
pub struct Reference {
    /// What the pins show.
    pub pins: PinReader,
    configuration: Configuration,
    /// Accesses seen while capturing, merged or not.
    pub bursts: u64,
    /// What the card must have sent, but for what more bursts may join; take it from here at will.
    pub events: Vec<Event>,
}

impl Reference {
    /// Before the first clock.
    pub fn new(memory: &MemoryDescription, granularity: Granularity) -> Self {
        Reference {
            pins: PinReader::new(memory),
            configuration: Configuration::new(memory, granularity),
            bursts: 0,
            events: Vec::new(),
        }
    }

    /// One clock.
    pub fn clock(&mut self, pins: Pins) {
        match self.pins.clock(pins) {
            Some(Seen::Access(access, ..)) => {
                self.bursts += u64::from(self.configuration.running());
                self.configuration.access(access, &mut self.events);
            }
            Some(Seen::Fault(fault)) => self.configuration.other(fault, &mut self.events),
            None => {}
        }
    }

    /// No more clocks come.
    pub fn finish(&mut self) {
        self.configuration.close(&mut self.events);
    }
}
