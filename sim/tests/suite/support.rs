//! Replays vectors through a software card, and spans through the card itself, for several tests.

pub mod legality;
pub mod soft_card;

use std::path::PathBuf;

use gateware::CardParameters;
use hmtt_format::config::Granularity;
use hmtt_format::{MemoryDescription, Pins};
use hmtt_sim::engine::rust::Stepper;
use hmtt_sim::engine::{self, Card, Options, Settings};
use hmtt_sim::gmii::Gmii;
use hmtt_sim::input::Spans;
use hmtt_sim::output::Sink;
use hmtt_sim::replay::{self, Outcome, Replay, ReplayError};
use hmtt_sim::schedule::TX_PERIOD_PS;

use soft_card::SoftCard;

/// The directory of the vectors.
pub fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors")
}

/// The software card with its straps set.
pub struct StrappedSoftCard {
    card: SoftCard,
    straps: u16,
}

impl StrappedSoftCard {
    pub fn new(memory: MemoryDescription, settings: Settings) -> Self {
        let straps = settings.mode as u16
            | u16::from(settings.granularity == Granularity::Burst) << 2
            | u16::from(settings.frequency) << 3
            | u16::from(settings.slice_code) << 4;
        StrappedSoftCard { card: SoftCard::new(memory), straps }
    }
}

impl Card for StrappedSoftCard {
    fn ddr_edge(&mut self, pins: Pins, run: bool) {
        self.card.ddr(pins, run, self.straps);
    }

    fn tx_edge(&mut self) -> Gmii {
        let (txd, tx_en) = self.card.tx();
        Gmii { txd, tx_en, tx_er: false }
    }
}

/// Replays spans through the software card.
pub fn replay(
    spans: Spans,
    memory: &MemoryDescription,
    settings: Settings,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Outcome, ReplayError> {
    let card = StrappedSoftCard::new(memory.clone(), settings);
    let mut engine =
        Stepper { card, tck_ps: memory.tck_ps, tx_period_ps: TX_PERIOD_PS, stop: None };
    replay::run(Replay {
        spans,
        memory,
        engine: &mut engine,
        sinks,
        keep_events: true,
        progress: &mut |_| {},
    })
}

/// Replays spans through the card. There must be no violations and flaws.
pub fn replay_card(
    spans: Spans,
    options: &Options,
    parameters: &CardParameters,
    settings: Settings,
) -> Outcome {
    let mut engine = engine::prepare(options, parameters, settings).unwrap();
    let outcome = replay::run(Replay {
        spans,
        memory: &parameters.memory,
        engine: &mut *engine,
        sinks: vec![],
        keep_events: true,
        progress: &mut |_| {},
    })
    .unwrap();
    assert_eq!((&outcome.violations[..], &outcome.flaws[..]), (&[][..], &[][..]));
    outcome
}
