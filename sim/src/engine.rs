//! Simulates the card: applies pin levels and returns its GMII output.
//!
//! There are two engines with one contract: they apply the edges of [`crate::schedule`] and return
//! the card's outputs as they are just before each rising TX edge. `rust` steps the rust-hdl model
//! and is the reference. `verilator` runs the emitted Verilog, compiled. Equal output of both shows
//! that the Verilog implements the model.

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
mod clocks;
mod compiler;
mod loops;
pub mod rust;
pub mod verilator;

pub use card::{Settings, default_parameters};
pub use gateware::FifoSize;

/// The device at the other end of the card's GMII.
pub trait Phy {
    /// Receives the same levels at `count` consecutive TX edges. `Break` stops the simulation.
    fn take(&mut self, gmii: Gmii, count: u64) -> ControlFlow<()>;

    /// Reports that `clocks` DDR clocks have been simulated. `quiet`: the recording has ended.
    /// Every engine calls this at the same clocks while `quiet`, and occasionally before. `Break`
    /// stops the simulation.
    fn progress(&mut self, clocks: u64, quiet: bool) -> ControlFlow<()>;

    /// Reports the largest number of words that the card's FIFO has held. Called before each
    /// [`Phy::progress`].
    fn fifo_peak(&mut self, words: u64);
}

/// An engine that runs a card from its first clock to its last.
pub trait Engine {
    /// Runs `stimulus` through a card that was just powered on, until `phy` returns `Break`.
    fn run(&mut self, stimulus: &mut Stimulus, phy: &mut dyn Phy) -> Result<(), EngineError>;

    /// Period of the TX clock in picoseconds.
    fn tx_period_ps(&self) -> u32;
}

/// A simulated card, driven edge by edge.
pub trait Card {
    /// Applies the pins, then one rising edge of the DDR clock.
    fn ddr_edge(&mut self, pins: Pins, run: bool);

    /// Applies a rising TX edge and returns the levels that the PHY samples at it.
    fn tx_edge(&mut self) -> Gmii;

    /// Words of complete blocks in the card's FIFO. Visible in simulation only; no pin carries it.
    fn fifo_words(&self) -> u64 {
        0
    }

    /// Ends the simulation and completes other output of the card, such as waveforms.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Selects an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The rust-hdl model.
    Rust,
    /// The emitted Verilog, compiled by Verilator.
    Verilator,
}

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The engine.
    pub kind: Kind,
    /// Directory of compiled models; `None`: [`cache::default_directory`].
    pub cache: Option<PathBuf>,
    /// File for the card's waveforms.
    pub vcd: Option<PathBuf>,
    /// Period of the TX clock in picoseconds: [`crate::schedule::TX_PERIOD_PS`], or longer to slow
    /// the link deliberately.
    pub tx_period_ps: u32,
    /// When the DDR clock stops, if it does. Not to be combined with waveforms, whose times leave
    /// the stop out.
    pub stop: Option<ClockStop>,
    /// Called before a model is compiled, because that can take a minute, with the path of the
    /// compiled model. Not called when the model exists.
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

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("the card did not finish within {clocks} clocks after the recording")]
    NotFinished { clocks: u64 },
    #[error(
        "a link of this speed hides the DDR clock: the card samples it every {} ns, which is, or nearly is, a multiple of \
         32 DDR clocks ({} ns), so it takes the clock for lost; choose another speed",
        *tx_period_ps as f64 / 1e3, 32.0 * f64::from(*tck_ps) / 1e3
    )]
    ClockHidden { tx_period_ps: u32, tck_ps: u32 },
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

    /// Converts the error of starting Verilator.
    fn from_verilator(error: io::Error) -> EngineError {
        match error.kind() {
            io::ErrorKind::NotFound => EngineError::VerilatorMissing,
            _ => EngineError::Io { operation: "run", path: "verilator".into(), source: error },
        }
    }
}

/// Prepares an engine: generates, compiles or builds the card.
pub fn prepare(
    options: &Options,
    parameters: &CardParameters,
    settings: Settings,
) -> Result<Box<dyn Engine>, EngineError> {
    let tck_ps = parameters.memory.tck_ps;
    let tx_period_ps = options.tx_period_ps;
    if !gateware::ethernet::clock_watch::sees(tck_ps, tx_period_ps) {
        return Err(EngineError::ClockHidden { tx_period_ps, tck_ps });
    }
    match options.kind {
        Kind::Rust => {
            let card = card::simulated(parameters, settings, options.vcd.as_deref())?;
            Ok(Box::new(rust::Stepper { card, tck_ps, tx_period_ps, stop: options.stop }))
        }
        Kind::Verilator => {
            let text = card::verilog(parameters)?;
            let cache = options.cache.clone().map_or_else(cache::default_directory, Ok)?;
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

/// The settings of the card after power-on.
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
