//! Builds the gateware for the engines: a model to step, or Verilog to compile, with straps set.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use gateware::{CardParameters, FifoSize, SimulatedCard};
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::{MemoryDescription, Pins};

use super::{Card, EngineError};
use crate::gmii::Gmii;

/// The settings after power-on that the card's straps select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The mode of recording.
    pub mode: Mode,
    /// The unit of line records.
    pub granularity: Granularity,
    /// Whether frequency slices are recorded in addition to line or page records.
    pub frequency: bool,
    /// Code of the time slice, see [`hmtt_format::config::slice_micros`].
    pub slice_code: u8,
    /// Whether the analysis (hot pages, reuse distances, bank use) runs in addition.
    pub analysis: bool,
}

/// The parameters of the card that is simulated by default.
pub fn default_parameters(memory: MemoryDescription) -> CardParameters {
    CardParameters { memory, fifo: FifoSize::default() }
}

/// Encodes settings as levels of the strap pins.
pub fn straps(settings: Settings) -> u16 {
    let Settings { mode, granularity, frequency, slice_code, analysis } = settings;
    gateware::straps(mode, granularity, frequency, slice_code, analysis)
}

/// Generates the card's Verilog.
pub fn verilog(parameters: &CardParameters) -> Result<String, EngineError> {
    gateware::emit::verilog(parameters).map_err(|error| EngineError::Card(error.to_string()))
}

/// The rust-hdl card with its straps set.
pub struct StrappedCard {
    card: SimulatedCard,
    straps: u16,
    waves: Option<PathBuf>,
}

/// Builds the rust-hdl card. With `waves` it writes a VCD file, which makes it many times slower.
pub fn simulated(
    parameters: &CardParameters,
    settings: Settings,
    waves: Option<&Path>,
) -> Result<StrappedCard, EngineError> {
    let mut card = SimulatedCard::new(parameters);
    if let Some(path) = waves {
        let file = File::create(path).map_err(EngineError::io("create", path))?;
        card.write_waves(Box::new(BufWriter::new(file)));
    }
    let waves = waves.map(Path::to_owned);
    Ok(StrappedCard { card, straps: straps(settings), waves })
}

impl Card for StrappedCard {
    fn ddr_edge(&mut self, pins: Pins, run: bool) {
        self.card.ddr_edge(pins, run, self.straps);
    }

    fn tx_edge(&mut self) -> Gmii {
        let gateware::Gmii { txd, tx_en, tx_er } = self.card.tx_edge();
        Gmii { txd, tx_en, tx_er }
    }

    fn fifo_words(&self) -> u64 {
        self.card.fifo_words()
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        let path = self.waves.take().unwrap_or_default();
        self.card.finish_waves().map_err(EngineError::io("write", &path))
    }
}
