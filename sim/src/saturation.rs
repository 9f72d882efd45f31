//! The densest legal DDR-200 traffic through a card, checked record by record while it runs.
//!
//! ```text
//! pattern     seed                -> bursts somebody wants
//! controller  bursts              -> commands at JEDEC's distances, and the accesses they are
//! expected    accesses            -> the records a card must send
//! check       frames and records  -> what was received, what was lost, whether that adds up
//! paper       accesses            -> what 64-bit records in a 128 KB FIFO would have lost
//! ```
//!
//! Nothing is kept: pins and truth come from two generators of one seed, so a run can be as long as one
//! likes. Truth never sees the card.

use std::cell::RefCell;
use std::rc::Rc;

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

/// What to run.
#[derive(Clone, Debug)]
pub struct Saturation {
    /// The traffic.
    pub pattern: Pattern,
    /// Bus words of a burst: 4 or 8.
    pub burst_length: u8,
    /// DDR clocks of traffic.
    pub clocks: u64,
    /// Makes the random choices.
    pub seed: u64,
    /// log2 of the words of the card's FIFO.
    pub fifo_log2: u8,
    /// The engine; its TX clock is the link.
    pub engine: Options,
}

/// What came of it.
#[derive(Debug)]
pub struct Found {
    /// Counts of the card and the link.
    pub outcome: Outcome,
    /// Received against produced.
    pub verdict: Verdict,
    /// The published format on the same accesses.
    pub paper: PaperFifo,
}

/// The 512 MB of DDR-200 the gateware is made for when nothing else is named: four banks of 8192 rows of
/// 16 KB, 64 data bits.
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

/// Runs it. `progress`: called now and then with the clocks so far.
pub fn run(what: &Saturation, progress: &mut dyn FnMut(u64)) -> Result<Found, ReplayError> {
    let mut parameters = engine::default_parameters(memory(what.burst_length));
    parameters.fifo_log2 = what.fifo_log2;
    let memory = &parameters.memory;
    let mut engine = engine::prepare(&what.engine, &parameters, Settings::default())?;
    let controller = || Controller::new(memory, what.pattern, what.seed).take(what.clocks as usize);
    let verdict = Rc::new(RefCell::new(Verdict::default()));
    let expected = Expected::new(memory, controller().filter_map(|clock| clock.made));
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

/// What the published format would have lost of the same traffic.
pub fn published(what: &Saturation) -> PaperFifo {
    let memory = memory(what.burst_length);
    let controller = Controller::new(&memory, what.pattern, what.seed).take(what.clocks as usize);
    let mut paper = PaperFifo::new(memory.tck_ps, what.engine.tx_period_ps);
    for event in Expected::new(&memory, controller.filter_map(|clock| clock.made)) {
        paper.take(&event);
    }
    paper
}
