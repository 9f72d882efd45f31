//! The `synth` command: writes Verilog, constraints and a build script for a board and a memory,
//! then counts cells or builds a bitstream.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use hmtt_format::MemoryDescription;
use hmtt_format::toml_memory::{self, TomlError};
use serde::Deserialize;

use crate::bitstream::tools::{Step, Tools};
use crate::bitstream::{self, BitstreamError, Family, Requirement, constraints};
use crate::boards::{Board, Rate};
use crate::emit::EmitError;

/// Memory description that is used when none is named.
pub const DEFAULT_MEMORY: &str = include_str!("../memories/ddr1-512m.toml");

/// Why `synth` failed.
#[derive(Debug)]
pub enum SynthError {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// The memory description is wrong.
    Memory(PathBuf, TomlError),
    /// The board cannot have this card.
    Emit(EmitError),
    /// yosys, nextpnr or a packer failed.
    Bitstream(BitstreamError),
    /// yosys counted no cells.
    Cells(PathBuf, String),
}

impl std::fmt::Display for SynthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SynthError::File(path, error) => write!(f, "{}: {error}", path.display()),
            SynthError::Memory(path, error) => write!(f, "{}: {error}", path.display()),
            SynthError::Emit(error) => error.fmt(f),
            SynthError::Bitstream(error) => error.fmt(f),
            SynthError::Cells(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for SynthError {}

impl From<BitstreamError> for SynthError {
    fn from(error: BitstreamError) -> Self {
        SynthError::Bitstream(error)
    }
}

/// Reads a memory description; returns the default one for `None`.
pub fn memory(file: Option<&Path>) -> Result<MemoryDescription, SynthError> {
    let (path, text) = match file {
        None => (Path::new("the built-in memory"), DEFAULT_MEMORY.to_string()),
        Some(path) => {
            (path, fs::read_to_string(path).map_err(|error| SynthError::File(path.into(), error))?)
        }
    };
    toml_memory::parse(&text).map_err(|error| SynthError::Memory(path.into(), error))
}

/// Returns the required frequencies of the clocks of a board. `ddr_mhz` replaces the clock of the
/// memory.
pub fn requirements(
    board: &Board,
    memory: &MemoryDescription,
    ddr_mhz: Option<f64>,
) -> Vec<Requirement> {
    let of_memory = ddr_mhz.unwrap_or(1e6 / f64::from(memory.tck_ps));
    let requirement = |clock: &crate::boards::BoardClock| {
        let mhz = match clock.rate {
            Rate::Mhz(mhz) => mhz,
            Rate::Memory => of_memory,
        };
        Requirement { name: clock.name, net: clock.net, mhz }
    };
    board.clocks.iter().map(requirement).collect()
}

/// Writes all files of a build into `out`; returns their paths.
pub fn write(
    board: &Board,
    memory: &MemoryDescription,
    fifo_kb: usize,
    requirements: &[Requirement],
    out: &Path,
) -> Result<Vec<PathBuf>, SynthError> {
    let verilog = (board.verilog)(memory, fifo_kb).map_err(SynthError::Emit)?;
    let (name, text) = board.constraints;
    let constraints = constraints::with_clocks(text, requirements)?;
    let script = build_script(board.family, name);
    fs::create_dir_all(out).map_err(|error| SynthError::File(out.into(), error))?;
    [("card.v", verilog), ("build.sh", script), (name, constraints)]
        .into_iter()
        .map(|(name, text)| {
            let path = out.join(name);
            fs::write(&path, text).map_err(|error| SynthError::File(path.clone(), error))?;
            Ok(path)
        })
        .collect()
}

/// Returns a script with the commands of the tools for one seed, to run them by hand.
fn build_script(family: Family, constraints: &str) -> String {
    let mut script = String::from(
        "#!/bin/sh\n# The tools by hand, for one seed. `synth --bitstream` also checks what they \
         report, and tries more seeds.\nset -eu\ncd \"$(dirname \"$0\")\"\n",
    );
    let mut steps = vec![family.map(), family.place(constraints, 1), family.pack(1, true)];
    // In a script for use by hand, nextpnr itself fails if timing is missed.
    steps[1].arguments.retain(|argument| argument != "--timing-allow-fail");
    for Step { tool, arguments, .. } in steps {
        let quoted = arguments.iter().map(|argument| {
            let plain = argument.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
            if plain { argument.clone() } else { format!("'{argument}'") }
        });
        let _ = writeln!(script, "{tool} {}", quoted.collect::<Vec<_>>().join(" "));
    }
    script
}

/// The design after mapping by yosys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Number of cells of each kind.
    pub cells: BTreeMap<String, u64>,
}

impl Mapped {
    /// Returns the number of cells of kinds whose name starts with `prefix`.
    pub fn count(&self, prefix: &str) -> u64 {
        let named = self.cells.iter().filter(|(kind, _)| kind.starts_with(prefix));
        named.map(|(_, count)| count).sum()
    }
}

/// Maps the design in `out`; `Ok(None)` when yosys is not installed.
pub fn map_with_yosys(
    board: &Board,
    out: &Path,
    tools: &Tools,
) -> Result<Option<Mapped>, SynthError> {
    match bitstream::map(board.family, out, tools) {
        Err(BitstreamError::Missing(_)) => return Ok(None),
        result => result?,
    }
    let path = out.join("cells.json");
    let text = fs::read_to_string(&path).map_err(|error| SynthError::File(path.clone(), error))?;
    cells_of(&text).map(Some).map_err(|why| SynthError::Cells(path, why))
}

/// Reads the cell counts of yosys' `stat -json`.
fn cells_of(text: &str) -> Result<Mapped, String> {
    #[derive(Deserialize)]
    struct Statistics {
        design: Design,
    }
    #[derive(Deserialize)]
    struct Design {
        num_cells_by_type: BTreeMap<String, u64>,
    }
    let statistics: Statistics = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Mapped { cells: statistics.design.num_cells_by_type })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_by_the_start_of_their_name() {
        let text = r#"{"creator": "yosys", "design": {"num_cells": 3, "num_cells_by_type":
            {"SB_DFF": 1, "SB_DFFE": 1, "SB_LUT4": 1}}}"#;
        let mapped = cells_of(text).expect("counts");
        assert_eq!(mapped.count("SB_DFF"), 2);
        assert_eq!(mapped.count("SB_X"), 0);
        assert!(cells_of("{}").is_err());
    }
}
