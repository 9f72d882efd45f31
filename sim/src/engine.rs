//! Pin levels through the card to its GMII output.
//!
//! Two engines, one contract: the edges of [`crate::schedule`], the card's outputs as they are just
//! before each rising TX edge. `rust` steps the rust-hdl model and is the reference; `verilator`
//! runs the emitted Verilog, compiled, and is the proof that both agree.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gateware::CardParameters;
use hmtt_format::Pins;
use hmtt_format::config::{Granularity, Mode};

use crate::gmii::Gmii;
use crate::input::InputError;
use crate::schedule::ClockStop;
use crate::stimulus::Stimulus;

pub mod cache;
mod card;
mod loops;
pub mod rust;
pub mod verilator;

pub use card::{Settings, default_parameters};

/// What sits at the other end of the card's GMII.
pub trait Phy {
    /// `count` consecutive TX edges with the same levels. Break: enough, stop the simulation.
    fn take(&mut self, gmii: Gmii, count: u64) -> ControlFlow<()>;

    /// `clocks` DDR clocks have been simulated; `quiet`: the recording is over. Called at the same
    /// clocks by every engine while it is quiet, now and then before. Break: stop the simulation.
    fn progress(&mut self, clocks: u64, quiet: bool) -> ControlFlow<()>;

    /// The most words the card's FIFO has held so far, told before each [`Phy::progress`].
    fn fifo_peak(&mut self, words: u64);
}

/// What runs a card from its first clock to its last.
pub trait Engine {
    /// Runs `stimulus` through a card fresh from power-on until `phy` has enough.
    fn run(&mut self, stimulus: &mut Stimulus, phy: &mut dyn Phy) -> Result<(), EngineError>;

    /// Period of the TX clock in picoseconds.
    fn tx_period_ps(&self) -> u32;
}

/// A simulated card, edge by edge.
pub trait Card {
    /// One DDR clock: the pins, then the rising edge.
    fn ddr_edge(&mut self, pins: Pins, run: bool);

    /// A rising TX edge; what the PHY samples at it.
    fn tx_edge(&mut self) -> Gmii;

    /// Words of complete blocks in the card's FIFO. Seen in simulation only; no pin tells.
    fn fifo_words(&self) -> u64 {
        0
    }

    /// The simulation is over: completes what the card wrote besides.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The rust-hdl model.
    Rust,
    /// The emitted Verilog, compiled by Verilator.
    Verilator,
}

/// How to run an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which one.
    pub kind: Kind,
    /// Where compiled models are kept; `None`: [`cache::default_directory`].
    pub cache: Option<PathBuf>,
    /// Write the card's waves here.
    pub vcd: Option<PathBuf>,
    /// Period of the TX clock in picoseconds: [`crate::schedule::TX_PERIOD_PS`], or longer to slow the
    /// link on purpose.
    pub tx_period_ps: u32,
    /// When the DDR clock stands still, if ever; not together with waves, whose times leave it out.
    pub stop: Option<ClockStop>,
    /// Called before a model is compiled, as it can take a minute, with the file that will keep it. Not
    /// called when the model is there.
    pub compiling: fn(&Path),
}

impl Default for Options {
    fn default() -> Self {
        let tx_period_ps = crate::schedule::TX_PERIOD_PS;
        Options {
            kind: Kind::Rust,
            cache: None,
            vcd: None,
            tx_period_ps,
            stop: None,
            compiling: |_| {},
        }
    }
}

/// Why a simulation did not come to its end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("the card did not finish within {clocks} clocks after the recording")]
    NotFinished { clocks: u64 },
    #[error("cannot generate the card: {0}")]
    Card(String),
    #[error("verilator is not installed: apt-get install verilator")]
    VerilatorMissing,
    #[error("verilator refused the card:\n{log}")]
    Build { log: String },
    #[error("{}: cannot {operation}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("the compiled card stopped: {reason}")]
    Died { reason: String },
}

impl EngineError {
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EngineError {
        let path = path.to_owned();
        move |source| EngineError::Io { operation, path, source }
    }

    /// Why verilator could not be run.
    fn from_verilator(error: io::Error) -> EngineError {
        match error.kind() {
            io::ErrorKind::NotFound => EngineError::VerilatorMissing,
            _ => EngineError::Io { operation: "run", path: "verilator".into(), source: error },
        }
    }
}

/// Makes an engine ready to run: generates, compiles or builds the card.
pub fn prepare(
    options: &Options,
    parameters: &CardParameters,
    settings: Settings,
) -> Result<Box<dyn Engine>, EngineError> {
    let tck_ps = parameters.memory.tck_ps;
    let tx_period_ps = options.tx_period_ps;
    match options.kind {
        Kind::Rust => {
            let card = card::simulated(parameters, settings, options.vcd.as_deref())?;
            Ok(Box::new(rust::Stepper { card, tck_ps, tx_period_ps, stop: options.stop }))
        }
        Kind::Verilator => {
            let text = card::verilog(parameters)?;
            let cache = options.cache.clone().unwrap_or_else(cache::default_directory);
            Ok(Box::new(verilator::Model {
                program: cache::model(&text, &cache, options.vcd.is_some(), options.compiling)?,
                tck_ps,
                tx_period_ps,
                straps: card::straps(settings),
                stop: options.stop,
                vcd: options.vcd.clone(),
            }))
        }
    }
}

/// What a card records after power-on.
impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Line,
            granularity: Granularity::Line,
            frequency: false,
            slice_code: hmtt_format::config::DEFAULT_SLICE_CODE,
            analysis: false,
        }
    }
}
