//! Reads recordings as pin levels, clock by clock.
//!
//! This is the first stage of the data flow. Invariant: every clock from 0 to the last clock of the
//! recording is returned, in order. If a recording cannot be read to its end, the result is an
//! error that names file and line, never a shorter recording.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use hmtt_format::header::HeaderError;
use hmtt_format::toml_memory::{self, TomlError, syntax_text};
use hmtt_format::{MemoryDescription, Pins};

pub mod lines;
pub mod pin_map;
pub mod vcd;
pub mod vector;

use lines::Lines;
use pin_map::PinMap;

/// Consecutive clocks with the same pin levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of clocks, at least one.
    pub clocks: u64,
    /// The pin levels.
    pub pins: Pins,
}

/// The spans of a recording, in order from clock 0.
pub type Spans = Box<dyn Iterator<Item = Result<Span, InputError>> + Send>;

/// An open recording.
pub struct Recording {
    /// The memory on which the recording was made.
    pub memory: MemoryDescription,
    /// Number of clocks, if the file states it in its header.
    pub clocks: Option<u64>,
    /// The spans of the recording.
    pub spans: Spans,
}

/// Why a recording, a memory description or a pin map could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum InputError {
    #[error("{}: cannot open", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{}:{line}: cannot read on", path.display())]
    Read { path: PathBuf, line: u64, source: io::Error },
    #[error("{}:{line}: expected {expected}, got `{got}`", path.display())]
    Malformed { path: PathBuf, line: u64, expected: String, got: String },
    #[error("{}:{line}: {error}", path.display())]
    Header { path: PathBuf, line: u64, error: HeaderError },
    #[error("{}:{line}: {error}; add it, or describe the memory with --memory FILE", path.display())]
    Undescribed { path: PathBuf, line: u64, error: HeaderError },
    #[error("{}: {error}", path.display())]
    Memory { path: PathBuf, error: TomlError },
    #[error("{}: {reason}", path.display())]
    PinMap { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    VcdArguments { path: PathBuf, reason: String },
    #[error("{}:{line}: {reason}", path.display())]
    Vcd { path: PathBuf, line: u64, reason: String },
}

impl InputError {
    /// Creates the error for a line with wrong content. Long lines are shortened.
    pub fn malformed(path: &Path, line: u64, expected: impl Into<String>, got: &str) -> Self {
        const SHOWN: usize = 60;
        let got = hmtt_format::escape::message(got).to_string();
        let got = match got.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &got[..end]),
            None => got,
        };
        // The expected text may quote a part of the line, so it is escaped too.
        let expected = hmtt_format::escape::message(&expected.into()).to_string();
        InputError::Malformed { path: path.into(), line, expected, got }
    }
}

/// Opens a recording: a vector, or a VCD, for which `pins` names the signals and `memory` the
/// memory. For a vector, `memory` replaces the header's description, which may then be incomplete.
pub fn open(
    path: &Path,
    memory: Option<MemoryDescription>,
    pins: Option<PinMap>,
) -> Result<Recording, InputError> {
    let mut reader = lines::open(path)?;
    let start = reader.fill_buf().map_err(|source| read_error(path, source))?;
    let first = vcd::without_mark(start).iter().find(|byte| !vcd::is_space(**byte));
    if first == Some(&b'$') {
        return vcd::open(path, reader, memory, pins);
    }
    let reader = vector::VectorReader::new(Lines::new(path, reader), memory)?;
    let header = reader.header();
    Ok(Recording {
        memory: header.memory.clone(),
        clocks: Some(header.last_clock + 1),
        spans: Box::new(reader),
    })
}

/// Reads a memory description in TOML.
pub fn read_memory(path: &Path) -> Result<MemoryDescription, InputError> {
    let text = read_text(path)?;
    toml_memory::parse(&text).map_err(|error| InputError::Memory { path: path.into(), error })
}

/// Reads a pin map in TOML.
pub fn read_pin_map(path: &Path) -> Result<PinMap, InputError> {
    let text = read_text(path)?;
    PinMap::parse(&text)
        .map_err(|error| InputError::PinMap { path: path.into(), reason: syntax_text(&error) })
}

fn read_text(path: &Path) -> Result<String, InputError> {
    std::fs::read_to_string(path).map_err(|source| InputError::Open { path: path.into(), source })
}

fn read_error(path: &Path, source: io::Error) -> InputError {
    InputError::Read { path: path.into(), line: 1, source }
}
