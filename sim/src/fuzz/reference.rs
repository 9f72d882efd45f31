//! Models the events that a card must send in line mode for given pins.

use hmtt_format::config::Granularity;
use hmtt_format::{Event, MemoryDescription, Pins};

use super::configuration::Configuration;
use super::pin_reader::{PinReader, Seen};

/// The model of the pins, with the records of its accesses and faults.
pub struct Reference {
    /// The model of the pins.
    pub pins: PinReader,
    configuration: Configuration,
    /// Number of accesses while the card records, merged or not.
    pub bursts: u64,
    /// The events that the card must have sent, without the open line. The caller may take them at
    /// any time.
    pub events: Vec<Event>,
}

impl Reference {
    /// The state before the first clock.
    pub fn new(memory: &MemoryDescription, granularity: Granularity) -> Self {
        Reference {
            pins: PinReader::new(memory),
            configuration: Configuration::new(memory, granularity),
            bursts: 0,
            events: Vec::new(),
        }
    }

    /// Applies one clock.
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

    /// Ends the stimulus: records the open line.
    pub fn finish(&mut self) {
        self.configuration.close(&mut self.events);
    }
}
