//! Reads the vectors. Also contains the code that end-to-end tests and benchmarks share: fuzzing,
//! load and measurements.

use std::io::Read;
use std::path::{Path, PathBuf};

use hmtt_format::{Access, truth};
pub use hmtt_test_support::programs::{has, program, run, skip, succeed};

pub mod charts;
pub mod fuzz;
pub mod hostile;
pub mod load;
pub mod measure;
pub mod oracle;
pub mod slowdown;

/// Names of the DDR1 vectors.
pub const DDR1: [&str; 12] = [
    "v01_ddr1_tiny_open",
    "v02_ddr1_tiny_rtl_init",
    "v03_ddr1_medium_open",
    "v04_ddr1_medium_closed_bl4",
    "v05_ddr1_medium_rtl",
    "v06_ddr1_powerdown_closed",
    "v07_ddr1_selfrefresh_open",
    "v08_ddr1_litedram",
    "v12_ddr1_directed",
    "v13_ddr1_directed_bl8",
    "v16_ddr1_faults",
    "v19_ddr1_bl4_open_same_row",
];

/// Names of the vectors of later generations.
pub const LATER: [&str; 7] = [
    "v09_ddr2_open",
    "v10_ddr3_open",
    "v11_ddr3_xor_open",
    "v14_ddr2_directed",
    "v15_ddr3_directed_OTF",
    "v17_ddr3_faults",
    "v18_ddr4_open",
];

/// Returns the path of a vector's file: `cmd.gz`, `truth.gz` or `flags.txt`.
pub fn vector(name: &str, suffix: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(format!("{name}.{suffix}"))
}

/// Decompresses a gzip file into a text.
pub fn gunzip(path: &Path) -> String {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a vector is gzip text");
    text
}

/// Reads the accesses that a vector really contains.
pub fn accesses(name: &str) -> Vec<Access> {
    let text = gunzip(&vector(name, "truth.gz"));
    text.lines().filter_map(|line| truth::parse_line(line).expect("a truth line")).collect()
}

/// Returns the first number after `key=` in a vector's header.
pub fn header_number(name: &str, key: &str) -> u64 {
    let text = gunzip(&vector(name, "cmd.gz"));
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} has no {key}="))
}
