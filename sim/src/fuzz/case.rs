//! Runs one seed: compares the events of the model with the events that an engine's card sends, one
//! by one.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use hmtt_format::config::Granularity;
use hmtt_format::{Event, MemoryDescription, Pins};

use super::generator::{Generator, Numbers};
use super::memories;
use super::reference::Reference;
use crate::engine::{self, Kind, Options, Settings};
use crate::gmii::Frame;
use crate::input::{Span, Spans};
use crate::output::{OutputError, Sink};
use crate::replay::{self, Outcome, Replay, ReplayError};

/// Clocks after the last command.
const LAST_CLOCKS: u64 = 1000;

/// Random commands and the events that the card must record for them.
pub struct Case {
    /// The memory that the commands are for.
    pub memory: MemoryDescription,
    /// The unit of line records at the start.
    pub granularity: Granularity,
    /// Clock and pins of each command. Every clock in between is DESELECT with CKE unchanged.
    pub commands: Vec<(u64, Pins)>,
    /// Number of clocks, including those after the last command.
    pub clocks: u64,
    /// The events that the card must send.
    pub expected: Vec<Event>,
    /// Number of accesses in `expected`, whether merged or not.
    pub bursts: u64,
    /// What the card's last report must state: faults that were not reported, and the burst length
    /// in force.
    pub last: (u8, Option<u8>),
}

/// Returns the unit of line records at the start of a seed's case. It alternates from case to case
/// of a memory.
fn granularity(seed: u64) -> Granularity {
    match (seed + seed / memories::ALL.len() as u64) % 2 {
        0 => Granularity::Burst,
        _ => Granularity::Line,
    }
}

impl Case {
    /// Generates `count` commands.
    pub fn new(memory: &MemoryDescription, seed: u64, count: usize) -> Self {
        let illegal = [0, 2, 20, 100][Numbers(seed).below(4) as usize];
        let mut generator = Generator::new(memory, seed, illegal);
        let granularity = granularity(seed);
        let mut reference = Reference::new(memory, granularity);
        let (mut commands, mut expected) = (Vec::with_capacity(count), Vec::new());
        let mut quiet = Pins::DESELECT;
        for _ in 0..count {
            let (gap, pins) = generator.next(&reference.pins);
            (0..gap).for_each(|_| reference.clock(quiet));
            commands.push((reference.pins.clocks(), pins));
            reference.clock(pins);
            quiet.cke = pins.cke;
            // The generator tries commands on copies of the model, so the model is kept small.
            expected.append(&mut reference.events);
        }
        (0..LAST_CLOCKS).for_each(|_| reference.clock(quiet));
        reference.finish();
        expected.append(&mut reference.events);
        let last = (reference.pins.unreported.min(255) as u8, reference.pins.burst_length());
        let (clocks, bursts) = (reference.pins.clocks(), reference.bursts);
        Case { memory: memory.clone(), granularity, commands, clocks, expected, bursts, last }
    }

    /// Runs the first `clocks` clocks through an engine. Returns the outcome and all frames.
    pub fn run(
        &self,
        kind: Kind,
        cache: Option<&Path>,
        clocks: u64,
    ) -> Result<(Outcome, Vec<Vec<u8>>), ReplayError> {
        let parameters = engine::default_parameters(self.memory.clone());
        let settings = Settings { granularity: self.granularity, ..Settings::default() };
        let cache = cache.map(Path::to_owned);
        let options = Options { kind, cache, ..Options::default() };
        let mut engine = engine::prepare(&options, &parameters, settings)?;
        let kept = Rc::new(RefCell::new(Vec::new()));
        let outcome = replay::run(Replay {
            spans: spans(&self.commands, clocks),
            memory: &parameters.memory,
            engine: &mut *engine,
            sinks: vec![Box::new(Keeper(kept.clone()))],
            keep_events: true,
            progress: &mut |_| {},
        })?;
        Ok((outcome, kept.take()))
    }

    /// Returns the first difference between what the card sent and `expected`, or `None`.
    pub fn difference(&self, outcome: &Outcome) -> Option<String> {
        let at = |index: usize| {
            let around = |events: &[Event]| {
                let from = index.saturating_sub(3).min(events.len());
                format!("{:#?}", &events[from..(index + 3).min(events.len())])
            };
            let (expected, sent) = (around(&self.expected), around(&outcome.events));
            format!("record {index}\nexpected, from three before: {expected}\nsent: {sent}")
        };
        if !outcome.violations.is_empty() || !outcome.flaws.is_empty() {
            return Some(format!("{:?} {:?}", outcome.violations, outcome.flaws));
        }
        if outcome.summary.lost_records != 0 {
            return Some(format!("{} records lost", outcome.summary.lost_records));
        }
        let stated = outcome.report.as_ref().map(|report| (report.unreported, report.burst_length));
        if stated != Some(self.last) {
            let last = self.last;
            return Some(format!(
                "unreported faults, burst length: {last:?}, reported: {stated:?}"
            ));
        }
        let pairs = self.expected.iter().zip(&outcome.events);
        let common = pairs.take_while(|(a, b)| a == b).count();
        (common < self.expected.len().max(outcome.events.len())).then(|| at(common))
    }
}

/// Converts commands into spans of the first `clocks` clocks. Between commands only CKE is driven.
pub fn spans(commands: &[(u64, Pins)], clocks: u64) -> Spans {
    let mut spans = Vec::with_capacity(2 * commands.len());
    let (mut next, mut quiet) = (0, Pins::DESELECT);
    for (clock, pins) in commands.iter().take_while(|(clock, _)| *clock < clocks) {
        if *clock > next {
            spans.push(Ok(Span { clocks: clock - next, pins: quiet }));
        }
        spans.push(Ok(Span { clocks: 1, pins: *pins }));
        next = clock + 1;
        quiet.cke = pins.cke;
    }
    if clocks > next {
        spans.push(Ok(Span { clocks: clocks - next, pins: quiet }));
    }
    Box::new(spans.into_iter())
}

/// A sink that keeps the bytes of all frames.
pub struct Keeper(pub Rc<RefCell<Vec<Vec<u8>>>>);

impl Sink for Keeper {
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError> {
        self.0.borrow_mut().push(frame.bytes.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        Ok(())
    }
}
