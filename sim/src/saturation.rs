//! Sends the densest legal DDR-200 traffic through a card, and checks each record during the run.
//!
//! ```text
//! pattern     generates the wanted bursts from a seed
//! controller  issues commands for them at JEDEC's distances, and returns their accesses
//! expected    derives the records that a card must send
//! check       compares frames with these records, and counts what was received and lost
//! paper       counts what 64-bit records in a 128 KB FIFO would have lost
//! ```
//!
//! Nothing is stored: pins and expected records come from two generators with one seed, so a run
//! can have any length. The expected records do not depend on the card.

use std::cell::RefCell;
use std::rc::Rc;

use gateware::FifoSize;
use hmtt_format::address_map::{Axis, MapBuilder};
use hmtt_format::{Generation, MemoryDescription};

use crate::engine::{self, Options, Settings};
use crate::input::{InputError, Span};
use crate::replay::{self, Outcome, Replay, ReplayError};

pub mod budget;
pub mod check;
pub mod controller;
pub mod expected;
pub mod paper;
pub mod pattern;

use check::{Check, Verdict};
use controller::Controller;
use expected::Expected;
use paper::PaperFifo;
use pattern::Pattern;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Saturation {
    /// The pattern of the traffic.
    pub pattern: Pattern,
    /// Length of a burst in bus words: 4 or 8.
    pub burst_length: u8,
    /// Length of the traffic in DDR clocks.
    pub clocks: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// Size of the card's FIFO.
    pub fifo: FifoSize,
    /// The engine. The period of its TX clock sets the speed of the link.
    pub engine: Options,
}

/// The result of a run.
#[derive(Debug)]
pub struct Found {
    /// Counts of the card and the link.
    pub outcome: Outcome,
    /// Comparison of received and produced records.
    pub verdict: Verdict,
    /// The losses of the published format for the same accesses.
    pub paper: PaperFifo,
}

/// The memory for which the gateware is made by default: 512 MB of DDR-200, four banks of 8192 rows
/// of 16 KB, 64 data bits.
pub fn memory(burst_length: u8) -> MemoryDescription {
    let mut map = MapBuilder::default();
    let axes = [(Axis::Column, 3, 11u8), (Axis::Bank, 14, 2), (Axis::Row, 16, 13)];
    for (axis, lowest, bits) in axes {
        for bit in 0..bits {
            map.bit(axis, bit, 1 << (lowest + bit)).expect("a bit of the map");
        }
    }
    let map = map.build().expect("bits that do not overlap");
    MemoryDescription::new(Generation::Ddr1, map, 8, burst_length.into(), 10_000)
        .expect("a memory JEDEC knows")
}

/// Runs the traffic through the card. `progress` is called from time to time with the clocks so
/// far.
pub fn run(what: &Saturation, progress: &mut dyn FnMut(u64)) -> Result<Found, ReplayError> {
    let mut parameters = engine::default_parameters(memory(what.burst_length));
    parameters.fifo = what.fifo;
    let memory = &parameters.memory;
    let mut engine = engine::prepare(&what.engine, &parameters, Settings::default())?;
    let controller = || Controller::new(memory, what.pattern, what.seed).take(what.clocks as usize);
    let verdict = Rc::new(RefCell::new(Verdict::default()));
    let expected = Expected::new(memory, controller().filter_map(|clock| clock.issued));
    let check = Check::new(expected, verdict.clone());
    let span = |clock: controller::Clock| Ok::<_, InputError>(Span { clocks: 1, pins: clock.pins });
    let outcome = replay::run(Replay {
        spans: Box::new(controller().map(span)),
        memory,
        engine: &mut *engine,
        sinks: vec![Box::new(check)],
        keep_events: false,
        progress,
    })?;
    let paper = published(what);
    Ok(Found { outcome, verdict: verdict.take(), paper })
}

/// Computes the losses of the published format for the same traffic.
pub fn published(what: &Saturation) -> PaperFifo {
    let memory = memory(what.burst_length);
    let controller = Controller::new(&memory, what.pattern, what.seed).take(what.clocks as usize);
    let mut paper = PaperFifo::new(memory.tck_ps, what.engine.tx_period_ps);
    for event in Expected::new(&memory, controller.filter_map(|clock| clock.issued)) {
        paper.take(&event);
    }
    paper
}
