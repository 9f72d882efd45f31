//! Runs one replay as the command line describes it. `Ok(true)` means that no defect was found.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use hmtt_sim::engine::{self, EngineError, Options};
use hmtt_sim::fuzz::case::Keeper;
use hmtt_sim::input::{self, Recording, Span, Spans};
use hmtt_sim::oracle::{self, capture::Capture};
use hmtt_sim::output::{Sink, interface::Interface, partial::Partial, pcapng::PcapngFile};
use hmtt_sim::replay::{self, Outcome, Replay, ReplayError};
use hmtt_sim::schedule;
use hmtt_sim::truth::{self, compare::Comparison};

use crate::args::ReplayArguments;
use crate::report::{self, Progress};

/// Replays a recording, compares the result and prints it. Returns whether no defect was found.
pub fn replay(arguments: &ReplayArguments) -> Result<bool> {
    refuse_shared_files(arguments)?;
    let recording = open(arguments)?;
    // Errors in these files are reported before a simulation that may take an hour.
    let expected = Expected::read(arguments)?;
    let mut parameters = engine::default_parameters(recording.memory);
    parameters.fifo = arguments.fifo;
    let force = arguments.force;
    let waves = arguments.vcd.as_deref().map(|path| Partial::create(path, force)).transpose()?;
    let options = Options {
        kind: arguments.engine.into(),
        cache: arguments.cache.clone(),
        stop: arguments.stop_clock,
        tx_period_ps: schedule::tx_period_of(arguments.link_mbps),
        compiling: report::compiling(arguments.quiet || arguments.json),
        vcd: waves.as_ref().map(|(_, file)| path_of(file)),
    };
    let mut engine = engine::prepare(&options, &parameters, arguments.settings())?;
    let progress = Progress::new(recording.clocks, arguments.quiet);
    let mut sinks = sinks(arguments)?;
    let (oracle_input, spans) = OracleInput::new(arguments, recording.spans, &mut sinks);
    let replay = Replay {
        spans,
        memory: &parameters.memory,
        engine: &mut *engine,
        sinks,
        keep_events: expected.any(),
        progress: &mut |clocks| progress.at(clocks),
    };
    let outcome = replay::run_switched(replay, arguments.switch_off.clone())?;
    progress.finish();
    waves.map(|(partial, _)| partial.finish()).transpose()?;
    let comparisons = expected.compare(&outcome, &parameters.memory, arguments);
    report::print(&outcome, &comparisons, arguments)?;
    let mut equal = comparisons.iter().all(Comparison::equal);
    if let Some(oracle_input) = oracle_input {
        equal &=
            report::print_verdict(&oracle_input.verdict(arguments, &parameters.memory), arguments);
    }
    Ok(equal && outcome.violations.is_empty() && outcome.flaws.is_empty())
}

/// A path by which this process and its children open a file that is open here, whatever has
/// happened to its name.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A recording and its frames, as input of the card's model.
struct OracleInput {
    spans: Arc<Mutex<Vec<Span>>>,
    frames: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl OracleInput {
    /// Collects spans and frames if the command line asks for the model.
    fn new(
        arguments: &ReplayArguments,
        spans: Spans,
        sinks: &mut Vec<Box<dyn Sink>>,
    ) -> (Option<Self>, Spans) {
        if !arguments.oracle {
            return (None, spans);
        }
        let oracle_input = OracleInput { spans: Arc::default(), frames: Rc::default() };
        sinks.push(Box::new(Keeper(oracle_input.frames.clone())));
        let kept = oracle_input.spans.clone();
        let spans = spans.inspect(move |span| {
            if let (Ok(span), Ok(mut kept)) = (span, kept.lock()) {
                kept.push(*span);
            }
        });
        (Some(oracle_input), Box::new(spans))
    }

    /// Compares the frames with the model.
    fn verdict(
        self,
        arguments: &ReplayArguments,
        memory: &hmtt_format::MemoryDescription,
    ) -> Result<oracle::Verdict, String> {
        let spans = self.spans.lock().map_err(|error| error.to_string())?;
        let (straps, off) = (arguments.settings(), &arguments.switch_off);
        let due = oracle::case::of_recording(memory, straps, &spans, off);
        oracle::check(&due, memory, &Capture::read(&self.frames.borrow())?)
    }
}

/// Rejects a file that is named for two purposes: one use would destroy the other's content.
fn refuse_shared_files(arguments: &ReplayArguments) -> Result<()> {
    let read = [Some(&arguments.input), arguments.truth.as_ref(), arguments.flags.as_ref()];
    let written = [arguments.output.as_ref(), arguments.vcd.as_ref()];
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    for output in written.into_iter().flatten() {
        let shared = read.into_iter().flatten().any(|input| real(input) == real(output));
        anyhow::ensure!(!shared, "{} would overwrite its own input", output.display());
    }
    let twice = written[0].is_some() && written[0] == written[1];
    anyhow::ensure!(!twice, "-o and --vcd name the same file");
    Ok(())
}

/// Whether an error describes a defect of the card, not of files or the machine.
pub fn is_card_defect(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(ReplayError::Engine(EngineError::NotFinished { .. } | EngineError::Died { .. }))
    )
}

fn open(arguments: &ReplayArguments) -> Result<Recording> {
    let memory = arguments.memory.as_deref().map(input::read_memory).transpose();
    let memory = memory.context("memory description")?;
    let pins = arguments.pins.as_deref().map(input::read_pin_map).transpose();
    let pins = pins.context("pin map")?;
    Ok(input::open(&arguments.input, memory, pins)?)
}

fn sinks(arguments: &ReplayArguments) -> Result<Vec<Box<dyn Sink>>> {
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    if let Some(path) = &arguments.output {
        sinks.push(Box::new(PcapngFile::create(path, arguments.force, arguments.fcs)?));
    }
    if let Some(name) = &arguments.interface {
        sinks.push(Box::new(Interface::open(name, arguments.speed)?));
    }
    Ok(sinks)
}

/// The truth and flags that the outcome is compared with.
struct Expected {
    accesses: Option<Vec<hmtt_format::Access>>,
    faults: Option<Vec<hmtt_format::Event>>,
}

impl Expected {
    fn read(arguments: &ReplayArguments) -> Result<Self> {
        Ok(Expected {
            accesses: arguments.truth.as_deref().map(truth::read).transpose()?,
            faults: arguments.flags.as_deref().map(truth::read_flags).transpose()?,
        })
    }

    fn any(&self) -> bool {
        self.accesses.is_some() || self.faults.is_some()
    }

    fn compare(
        self,
        outcome: &Outcome,
        memory: &hmtt_format::MemoryDescription,
        arguments: &ReplayArguments,
    ) -> Vec<Comparison> {
        let (events, clocks) = (&outcome.events, outcome.summary.clocks);
        let settings = arguments.settings();
        let mut comparisons = match &self.accesses {
            Some(accesses) => truth::check(accesses, events, memory, settings, clocks),
            None => Vec::new(),
        };
        comparisons.extend(self.faults.map(|faults| truth::check_flags(faults, events)));
        comparisons
    }
}
