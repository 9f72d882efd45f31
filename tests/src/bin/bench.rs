//! Measures the speed of the simulated card: runs both engines on the same vectors and prints a
//! Markdown table.
//!
//! The engines alternate, so that other load on the machine slows both. The table shows medians.

use hmtt_tests::{succeed, vector};

/// Vectors, and the number of runs of each engine.
const RUNS: [(&str, usize); 3] =
    [("v03_ddr1_medium_open", 3), ("v05_ddr1_medium_rtl", 5), ("v19_ddr1_bl4_open_same_row", 5)];

/// Returns the number of clocks in the recording, and the simulated DDR clocks per second of one
/// replay.
fn replay(name: &str, engine: &str) -> (u64, f64) {
    let input = vector(name, "cmd.gz");
    let input = input.to_str().expect("vectors have text paths");
    let text = succeed("hmtt-sim", &["replay", input, "--engine", engine, "--quiet", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&text).expect("a summary in JSON");
    let number = |key: &str| {
        summary[key].as_f64().unwrap_or_else(|| panic!("the summary has no number {key}: {text}"))
    };
    (number("clocks") as u64, number("clocks_per_second"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    println!("| vector | clocks | rust engine, clocks/s | verilator engine, clocks/s | ratio |");
    println!("|---|---:|---:|---:|---:|");
    for (name, runs) in RUNS {
        // The first run builds the model and is not counted.
        let (clocks, _) = replay(name, "verilator");
        let (mut rust, mut verilator) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            rust.push(replay(name, "rust").1);
            verilator.push(replay(name, "verilator").1);
        }
        let (rust, verilator) = (median(rust), median(verilator));
        println!("| {name} | {clocks} | {rust:.0} | {verilator:.0} | {:.0} |", verilator / rust);
    }
}
