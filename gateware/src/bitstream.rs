//! Builds a bitstream from a folder with Verilog and constraints, by yosys, nextpnr and a packer.
//!
//! The design is mapped once, placed and routed with one seed after the other, and the best result
//! is packed. The exit status, complaints and report of each step are checked, and its output is
//! kept beside its results. Missed timing is a result, not an error.

pub mod constraints;
pub mod family;
pub mod report;
pub mod sweep;
pub mod table;
pub mod tools;

pub use family::Family;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use report::Routed;
use tools::{Step, Tools};

/// A clock domain and its required frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// Name in tables.
    pub name: &'static str,
    /// Net in the design.
    pub net: &'static str,
    /// MHz.
    pub mhz: f64,
}

/// Why there is no bitstream.
#[derive(Debug)]
pub enum BitstreamError {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// Tools that are not installed.
    Missing(Vec<&'static str>),
    /// A tool ended with an error: tool, exit status, log, its last lines.
    Failed(&'static str, String, PathBuf, String),
    /// A tool ended well, but printed a fatal complaint: tool, log, the lines.
    Complaints(&'static str, PathBuf, Vec<String>),
    /// nextpnr's report does not match the requirements.
    Report(PathBuf, String),
    /// The constraints file has no line for a clock's net.
    NoClockLine(&'static str),
}

impl std::fmt::Display for BitstreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Missing(tools) => write!(
                f,
                "not found, neither in the tools folder nor on PATH: {}; `make setup` installs \
                 what a bitstream needs",
                tools.join(", ")
            ),
            Self::Failed(tool, status, log, words) => {
                write!(f, "{tool} failed ({status}); {} ends with:\n{words}", log.display())
            }
            Self::Complaints(tool, log, lines) => {
                write!(f, "{tool} complained, see {}:\n{}", log.display(), lines.join("\n"))
            }
            Self::Report(path, why) => write!(f, "{}: {why}", path.display()),
            Self::NoClockLine(net) => {
                write!(f, "the constraints have no frequency line for net {net}")
            }
        }
    }
}

impl std::error::Error for BitstreamError {}

/// A build: the design, its requirements, and the seeds to try.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// Folder of `card.v` and the constraints, and of the results.
    pub folder: &'a Path,
    /// The FPGA.
    pub family: Family,
    /// Name of the constraints file.
    pub constraints: &'a str,
    /// Required frequencies.
    pub requirements: &'a [Requirement],
    /// Seeds to try: 1 to this one.
    pub seeds: u32,
    /// Try all seeds, even when one has met each clock.
    pub sweep: bool,
    /// Seeds placed at the same time.
    pub jobs: usize,
    /// The tools that run the steps.
    pub tools: &'a Tools,
}

/// A file that the packer wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The file.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
}

/// Result of a build.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Result of each seed, in the order of seeds.
    pub routed: Vec<Routed>,
    /// Index of the packed seed, which has the best slack.
    pub best: usize,
    /// Files of the packer, the bitstream first. Their names contain `misses-timing` if a clock is
    /// too slow.
    pub packed: Vec<Packed>,
}

impl Outcome {
    /// Returns whether the packed design meets each clock.
    pub fn met(&self) -> bool {
        self.routed[self.best].met()
    }
}

/// Builds a bitstream; calls `progress` after each step.
pub fn build(plan: &Plan, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, BitstreamError> {
    plan.tools.require(&plan.family.tools())?;
    progress("mapping");
    map(plan.family, plan.folder, plan.tools)?;
    let routed = sweep::sweep(plan, progress)?;
    let best = (0..routed.len())
        .max_by(|&a, &b| routed[a].margin().total_cmp(&routed[b].margin()))
        .expect("a sweep has a seed");
    let packed = pack(plan, &routed[best])?;
    Ok(Outcome { routed, best, packed })
}

/// Maps `card.v` to the FPGA's cells; `cells.json` counts them.
pub fn map(family: Family, folder: &Path, tools: &Tools) -> Result<(), BitstreamError> {
    tools.run(folder, &family.map())
}

fn pack(plan: &Plan, routed: &Routed) -> Result<Vec<Packed>, BitstreamError> {
    // Files of an earlier build must not be taken for results of this one.
    for met in [false, true] {
        for name in plan.family.packed(met) {
            let path = plan.folder.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(BitstreamError::File(path, error));
                }
                _ => {}
            }
        }
    }
    let step: Step = plan.family.pack(routed.seed, routed.met());
    plan.tools.run(plan.folder, &step)?;
    let size = |name: &&'static str| {
        let path = plan.folder.join(name);
        let bytes = fs::metadata(&path).map_err(|error| BitstreamError::File(path.clone(), error));
        bytes.map(|file| Packed { path, bytes: file.len() })
    };
    plan.family.packed(routed.met()).iter().map(size).collect()
}
