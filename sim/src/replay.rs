//! Replays a recording through a card and passes its frames to the outputs.
//!
//! This module connects the others and decides only when the replay ends: when the recording has
//! ended and the card has sent its end frames and then nothing; or when an output fails. End frames
//! alone are not sufficient, because software can stop and start a card within a recording.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use hmtt_format::{Event, MemoryDescription, Report};

use crate::decode::{Decoder, FlawAt};
use crate::engine::{Engine, EngineError, Phy};
use crate::gmii::{Catcher, Frame, Gmii, Violation};
use crate::input::Spans;
use crate::output::{OutputError, Sink};
use crate::stimulus::Stimulus;
use crate::summary::Summary;

/// Number of link violations that are kept; further ones are only counted.
const VIOLATIONS_KEPT: usize = 20;

/// The parameters of a replay.
pub struct Replay<'a> {
    /// The recording.
    pub spans: Spans,
    /// The memory on which the recording was made.
    pub memory: &'a MemoryDescription,
    /// The engine with its card.
    pub engine: &'a mut dyn Engine,
    /// The outputs of the frames.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Whether decoded events are kept for a comparison.
    pub keep_events: bool,
    /// Called from time to time with the number of clocks simulated so far.
    pub progress: &'a mut dyn FnMut(u64),
}

/// The result of a replay.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The counts of the replay.
    pub summary: Summary,
    /// All events, if they were kept.
    pub events: Vec<Event>,
    /// The card's last report.
    pub report: Option<Report>,
    /// The first link violations.
    pub violations: Vec<Violation>,
    /// The first flaws of frames.
    pub flaws: Vec<FlawAt>,
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ReplayError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Transmit edges of silence after which the card sends no further frame. Between two frames that
/// wait in its FIFO there are 12 edges (IEEE 802.3, 4.4.2), which take longer than many DDR clocks
/// on a slow link.
const LONGEST_GAP_EDGES: u64 = 64;

/// Runs a replay to its end. The outputs are finished only then.
pub fn run(replay: Replay<'_>) -> Result<Outcome, ReplayError> {
    run_switched(replay, Vec::new())
}

/// Runs a replay with the run switch off in the given ranges of clocks, which are in order.
pub fn run_switched(replay: Replay<'_>, off: Vec<Range<u64>>) -> Result<Outcome, ReplayError> {
    let MemoryDescription { generation, tck_ps, .. } = *replay.memory;
    let tx_period_ps = replay.engine.tx_period_ps();
    let mut stimulus =
        Stimulus::new(replay.spans, generation, tck_ps).for_link(tx_period_ps).with_switch_off(off);
    let mut receiver = Receiver {
        catcher: Catcher::new(tx_period_ps),
        fifo_peak: 0,
        decoder: Decoder::new(replay.keep_events),
        sinks: replay.sinks,
        failed: None,
        violations: Vec::new(),
        violation_count: 0,
        frames: 0,
        frame_edges: 0,
        progress: replay.progress,
    };
    let start = Instant::now();
    replay.engine.run(&mut stimulus, &mut receiver)?;
    let mut outcome = receiver.finish()?;
    outcome.summary.clocks = stimulus.counts().clocks;
    outcome.summary.commands = stimulus.counts().commands;
    outcome.summary.took(start.elapsed());
    Ok(outcome)
}

/// The device at the other end of the card's link.
struct Receiver<'a> {
    catcher: Catcher,
    decoder: Decoder,
    sinks: Vec<Box<dyn Sink>>,
    failed: Option<OutputError>,
    violations: Vec<Violation>,
    violation_count: u64,
    fifo_peak: u64,
    /// Number of frames at the last call of `progress`.
    frames: u64,
    /// Transmit edges at the last call of `progress` that found a frame.
    frame_edges: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Receiver<'_> {
    fn frame(&mut self, frame: &Frame) -> ControlFlow<()> {
        self.decoder.take(&frame.bytes);
        for sink in &mut self.sinks {
            if let Err(error) = sink.frame(frame) {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn violation(&mut self, violation: Violation) {
        self.violation_count += 1;
        if self.violations.len() < VIOLATIONS_KEPT {
            self.violations.push(violation);
        }
    }

    fn finish(mut self) -> Result<Outcome, OutputError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(violation) = std::mem::take(&mut self.catcher).finish() {
            self.violation(violation);
        }
        for sink in self.sinks {
            sink.finish()?;
        }
        let counts = self.decoder.counts();
        let summary = Summary {
            accesses: counts.accesses,
            frames: counts.frames,
            records: counts.records,
            lost_records: counts.lost,
            protocol_faults: counts.faults,
            tags: counts.tags,
            link_violations: self.violation_count,
            frame_flaws: counts.flaws,
            fifo_peak_words: self.fifo_peak,
            ..Summary::default()
        };
        Ok(Outcome {
            summary,
            violations: self.violations,
            flaws: self.decoder.flaws().to_vec(),
            report: self.decoder.report().cloned(),
            events: self.decoder.into_events(),
        })
    }
}

impl Phy for Receiver<'_> {
    fn take(&mut self, gmii: Gmii, count: u64) -> ControlFlow<()> {
        match self.catcher.take(gmii, count) {
            None => ControlFlow::Continue(()),
            Some(Ok(frame)) => self.frame(&frame),
            Some(Err(violation)) => {
                self.violation(violation);
                ControlFlow::Continue(())
            }
        }
    }

    fn fifo_peak(&mut self, words: u64) {
        self.fifo_peak = words;
    }

    fn progress(&mut self, clocks: u64, quiet: bool) -> ControlFlow<()> {
        (self.progress)(clocks);
        let frames = self.decoder.counts().frames;
        let silent = std::mem::replace(&mut self.frames, frames) == frames && self.catcher.idle();
        let edges = self.catcher.edges();
        if !silent {
            self.frame_edges = edges;
        }
        let silent_edges = edges - self.frame_edges;
        if quiet && silent && silent_edges > LONGEST_GAP_EDGES && self.decoder.finished() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
