//! Generates a case from a seed, runs it through an engine and checks the result.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use gateware::{CardParameters, FifoSize};
use hmtt_format::{MemoryDescription, Pins};

use super::capture::Capture;
use super::due::Due;
use super::model::Model;
use super::traffic::Traffic;
use super::{Verdict, check, losses};
use crate::engine::{self, Kind, Options, Settings};
use crate::fuzz::case::{Keeper, spans};
use crate::fuzz::memories;
use crate::fuzz::pin_reader::PinReader;
use crate::input::Span;
use crate::replay::{self, Outcome, Replay, ReplayError};
use crate::schedule::tx_period_of;

/// Number of clocks after the last command.
const LAST_CLOCKS: u64 = 1000;

/// The card of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Size of the card's FIFO.
    pub fifo: FifoSize,
    /// Speed of the card's link in Mb/s, at most 1000.
    pub link_mbps: u32,
}

/// A memory with the shortest distance between ticks, and so between dumps of the analysis.
const QUICK: &str = "generation = 'DDR1'\ntck_ns = 10.0\nbus_bytes = 8\nburst_length = 4\n\
    tick_clocks = 256\ntag_window_bytes = 65536\n[map]\ncolumn = ['p3-p13']\nbank = ['p14^p16', 'p15^p17']\nrow = ['p16-p28']\n";

impl Setup {
    /// Returns the memory of a seed, as TOML, and the card. The memory is one of the memories of
    /// [`crate::fuzz`], or one with short ticks. The card always has the large FIFO and the full
    /// link speed; small FIFOs and slow links are tested with recordings.
    pub fn of(seed: u64) -> (&'static str, Setup) {
        let whole = Setup { fifo: FifoSize::Kb128, link_mbps: 1000 };
        (memories::ALL.get((seed % 10) as usize).unwrap_or(&QUICK), whole)
    }

    /// Whether the FIFO and the link can take all records of generated commands.
    pub fn takes_all(&self) -> bool {
        self.fifo >= FifoSize::Kb128 && self.link_mbps >= 1000
    }
}

/// Generated commands, settings and levels of the run switch, with what a card must send for them.
pub struct Case {
    /// The memory.
    pub memory: MemoryDescription,
    /// The card.
    pub setup: Setup,
    /// Levels of the card's straps.
    pub straps: Settings,
    /// Clock and pins of each command. All other clocks are DESELECT with an unchanged CKE.
    pub commands: Vec<(u64, Pins)>,
    /// Ranges of clocks in which the run switch is off.
    pub off: Vec<Range<u64>>,
    /// Total number of clocks.
    pub clocks: u64,
    /// What the card must send.
    pub due: Due,
}

impl Case {
    /// Generates a case of `count` commands.
    pub fn new(memory: &MemoryDescription, setup: Setup, seed: u64, count: usize) -> Self {
        let mut traffic = Traffic::new(memory, seed);
        let straps = traffic.straps();
        let mut slot = Slot::new(memory, straps);
        let mut commands = Vec::with_capacity(count);
        let mut off: Vec<Range<u64>> = Vec::new();
        let mut quiet = Pins::DESELECT;
        for _ in 0..count {
            let (gap, pins) = traffic.next(&slot.reader);
            for left in (0..=gap).rev() {
                let clock = slot.reader.clocks();
                if traffic.switches(clock, slot.switch) {
                    slot.switch = !slot.switch;
                    if slot.switch {
                        off.last_mut().into_iter().for_each(|range| range.end = clock)
                    } else {
                        off.push(clock..u64::MAX)
                    }
                }
                if left == 0 {
                    commands.push((clock, pins));
                }
                slot.clock(if left == 0 { pins } else { quiet });
            }
            quiet.cke = pins.cke;
        }
        // The end is later than the last change of the switch.
        let clock = slot.reader.clocks();
        off.last_mut().into_iter().for_each(|range| range.end = range.end.min(clock));
        slot.switch = true;
        (0..LAST_CLOCKS).for_each(|_| slot.clock(quiet));
        let clocks = slot.reader.clocks();
        let (memory, due) = (memory.clone(), slot.finish());
        Case { memory, setup, straps, commands, off, clocks, due }
    }

    /// Runs the case through an engine and returns the outcome and all frames.
    ///
    /// # Errors
    /// If the card does not finish, or the engine is missing.
    pub fn run(
        &self,
        kind: Kind,
        cache: Option<&Path>,
    ) -> Result<(Outcome, Vec<Vec<u8>>), ReplayError> {
        let Setup { fifo, link_mbps } = self.setup;
        let parameters = CardParameters { memory: self.memory.clone(), fifo };
        let cache = cache.map(Path::to_owned);
        let tx_period_ps = tx_period_of(link_mbps);
        let options = Options { kind, cache, tx_period_ps, ..Options::default() };
        let mut engine = engine::prepare(&options, &parameters, self.straps)?;
        let kept = Rc::new(RefCell::new(Vec::new()));
        let replay = Replay {
            spans: spans(&self.commands, self.clocks),
            memory: &parameters.memory,
            engine: &mut *engine,
            sinks: vec![Box::new(Keeper(kept.clone()))],
            keep_events: false,
            progress: &mut |_| {},
        };
        let outcome = replay::run_switched(replay, self.off.clone())?;
        Ok((outcome, kept.take()))
    }

    /// Compares what the card sent with what it must send.
    ///
    /// # Errors
    /// A description of the first difference.
    pub fn check(&self, capture: &Capture) -> Result<Verdict, String> {
        if self.setup.takes_all() {
            losses::excused(&self.due, capture)?;
        }
        check(&self.due, &self.memory, capture)
    }
}

/// Computes what a card must send for a recording.
pub fn of_recording(
    memory: &MemoryDescription,
    straps: Settings,
    spans: &[Span],
    off: &[Range<u64>],
) -> Due {
    let mut slot = Slot::new(memory, straps);
    for span in spans {
        for _ in 0..span.clocks {
            let clock = slot.reader.clocks();
            slot.switch = !off.iter().any(|range| range.contains(&clock));
            slot.clock(span.pins);
        }
    }
    slot.finish()
}

/// The pins of a slot and the run switch at each clock.
struct Slot {
    reader: PinReader,
    model: Model,
    /// The run switch at the current clock and at the previous one.
    switch: bool,
    before: bool,
}

impl Slot {
    fn new(memory: &MemoryDescription, straps: Settings) -> Self {
        let (reader, model) = (PinReader::new(memory), Model::new(memory, straps));
        Slot { reader, model, switch: true, before: false }
    }

    fn clock(&mut self, pins: Pins) {
        if self.switch != self.before {
            self.model.switch(self.reader.clocks(), self.switch);
            self.before = self.switch;
        }
        if let Some(seen) = self.reader.clock(pins) {
            self.model.take(seen);
        }
    }

    fn finish(self) -> Due {
        let last = (self.reader.unreported.min(255) as u8, self.reader.burst_length());
        Due { last, ..self.model.finish(self.reader.clocks()) }
    }
}
