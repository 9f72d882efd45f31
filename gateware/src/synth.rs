//! The `synth` command: a board and a memory to Verilog, constraints and a build script on disk.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use hmtt_format::MemoryDescription;
use hmtt_format::toml_memory::{self, TomlError};

use crate::boards::Board;
use crate::emit::EmitError;

/// The memory the gateware is generated for when none is named.
pub const DEFAULT_MEMORY: &str = include_str!("../memories/ddr1-512m.toml");

/// Why nothing was written.
#[derive(Debug)]
pub enum SynthError {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// The memory description is wrong.
    Memory(PathBuf, TomlError),
    /// The board cannot carry the card.
    Emit(EmitError),
    /// yosys refused the design; its last words.
    Yosys(String),
}

impl std::fmt::Display for SynthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SynthError::File(path, error) => write!(f, "{}: {error}", path.display()),
            SynthError::Memory(path, error) => write!(f, "{}: {error}", path.display()),
            SynthError::Emit(error) => error.fmt(f),
            SynthError::Yosys(words) => write!(f, "yosys refused the design:\n{words}"),
        }
    }
}

impl std::error::Error for SynthError {}

/// Reads a memory description; the default one for `None`.
pub fn memory(file: Option<&Path>) -> Result<MemoryDescription, SynthError> {
    let (path, text) = match file {
        None => (Path::new("the built-in memory"), DEFAULT_MEMORY.to_string()),
        Some(path) => {
            (path, fs::read_to_string(path).map_err(|error| SynthError::File(path.into(), error))?)
        }
    };
    toml_memory::parse(&text).map_err(|error| SynthError::Memory(path.into(), error))
}

/// Writes everything a build needs into `out`; returns the files written.
pub fn write(
    board: &Board,
    memory: &MemoryDescription,
    out: &Path,
) -> Result<Vec<PathBuf>, SynthError> {
    let verilog = (board.verilog)(memory).map_err(SynthError::Emit)?;
    fs::create_dir_all(out).map_err(|error| SynthError::File(out.into(), error))?;
    let mut files = vec![("card.v", verilog.as_str()), ("build.sh", board.build_script)];
    files.extend(board.constraints);
    files
        .into_iter()
        .map(|(name, text)| {
            let path = out.join(name);
            fs::write(&path, text).map_err(|error| SynthError::File(path.clone(), error))?;
            Ok(path)
        })
        .collect()
}

/// What yosys made of the design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Kinds of cells and how many of each, in yosys' order.
    pub cells: Vec<(String, u64)>,
}

impl Mapped {
    /// Cells of all kinds whose name starts with `prefix`.
    pub fn count(&self, prefix: &str) -> u64 {
        self.cells.iter().filter(|(kind, _)| kind.starts_with(prefix)).map(|(_, count)| count).sum()
    }
}

/// Maps the design with yosys; `Ok(None)` when yosys is not installed.
pub fn map_with_yosys(board: &Board, verilog: &Path) -> Result<Option<Mapped>, SynthError> {
    let script = format!("read_verilog {}; {}; stat", verilog.display(), board.synthesis);
    let output = match Command::new("yosys").args(["-p", &script]).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SynthError::File("yosys".into(), error)),
        Ok(output) => output,
    };
    let log = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let mut words = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = writeln!(words, "exit status: {}", output.status);
        return Err(SynthError::Yosys(words));
    }
    Ok(Some(Mapped { cells: cells_of(&log) }))
}

/// The cell counts of the last `stat` in a yosys log.
fn cells_of(log: &str) -> Vec<(String, u64)> {
    let tail = log.rsplit("Number of cells:").next().unwrap_or("");
    tail.lines()
        .skip(1)
        .map_while(|line| {
            let mut fields = line.split_whitespace();
            let (kind, count) = (fields.next()?, fields.next()?);
            Some((kind.to_string(), count.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_counts_are_read_from_the_last_table() {
        let log = "Number of cells: 9\n SB_X 9\n\n   Number of cells:   3\n     SB_DFF   1\n     \
                   SB_DFFE   1\n     SB_LUT4     1\n\nEnd of script";
        let mapped = Mapped { cells: cells_of(log) };
        assert_eq!(mapped.count("SB_DFF"), 2);
        assert_eq!(mapped.count("SB_X"), 0);
    }
}
