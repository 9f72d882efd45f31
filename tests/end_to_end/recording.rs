//! Writes generated traffic as a recording in the vectors' format.

use std::path::Path;

use hmtt_sim::traffic::Traffic;
use hmtt_tests::fuzz::vector_text;

/// Writes the traffic in the vectors' format, with its memory in the header.
pub fn write_vector(path: &Path, traffic: &Traffic) {
    let text = vector_text(traffic.memory(), traffic.commands(), traffic.clocks());
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
