//! Runs one case of random commands on both engines, and stores a case that fails.

use std::fmt::Write as _;
use std::path::Path;

use hmtt_format::address_map::Axis;
use hmtt_format::{MemoryDescription, Pins};
use hmtt_sim::engine::Kind;
use hmtt_sim::fuzz::case::Case;
use hmtt_sim::fuzz::memories;

/// Number of clocks of each case that the reference engine also simulates. The reference engine is
/// slow.
const REFERENCE_CLOCKS: u64 = 3_000;

/// Runs a case. An error states the difference and the files in `folder` that reproduce it.
pub fn try_case(memory: &str, seed: u64, commands: usize, folder: &Path) -> Result<(), String> {
    let case = Case::new(&memories::parse(memory), seed, commands);
    let Err(wrong) = check(&case) else { return Ok(()) };
    let name = folder.join(format!("fuzz-{seed}"));
    let (vector, toml) = (name.with_extension("cmd"), name.with_extension("toml"));
    let text = vector_text(&case.memory, &case.commands, case.clocks);
    for (path, text) in [(&vector, text.as_str()), (&toml, memory)] {
        if let Err(error) = std::fs::write(path, text) {
            return Err(format!("seed {seed}: {wrong}\n{}: {error}", path.display()));
        }
    }
    let (vector, toml, granularity) = (vector.display(), toml.display(), case.granularity.name());
    let replay = format!("hmtt-sim replay {vector} --memory {toml} --granularity {granularity}");
    Err(format!("seed {seed}: {wrong}\nrun it again: {replay} --engine verilator"))
}

fn check(case: &Case) -> Result<(), String> {
    let run = |kind, clocks| case.run(kind, None, clocks).map_err(|error| error.to_string());
    let (outcome, _) = run(Kind::Verilator, case.clocks)?;
    if let Some(difference) = case.difference(&outcome) {
        return Err(format!("the card differs from the reference: {difference}"));
    }
    let clocks = REFERENCE_CLOCKS.min(case.clocks);
    let [(_, reference), (_, compiled)] = [run(Kind::Rust, clocks)?, run(Kind::Verilator, clocks)?];
    (reference == compiled).then_some(()).ok_or_else(|| "the engines differ".into())
}

/// Formats commands in the vectors' format, with the memory in the header.
pub fn vector_text(memory: &MemoryDescription, commands: &[(u64, Pins)], clocks: u64) -> String {
    let mut text = String::from("# ddr command-bus vector 1\n");
    let _ = writeln!(text, "generation={}", memory.generation.name());
    let _ = writeln!(text, "speed=DDR (tCK {} ns)", f64::from(memory.tck_ps) / 1000.0);
    let _ = writeln!(text, "bus_bytes={}\nchip_selects={}", 1 << memory.bus_log2, memory.ranks());
    let _ = writeln!(text, "mirror_odd_ranks={}", u8::from(memory.mirror_odd_ranks));
    let count = |axis| 1u64 << memory.bits(axis);
    let (rows, banks) = (count(Axis::Row), count(Axis::Bank));
    let _ = writeln!(text, "rows={rows} banks={banks} columns={}", count(Axis::Column));
    for axis in Axis::ALL {
        for bit in 0..memory.bits(axis) {
            let mask = memory.map.mask(axis, bit);
            let terms: Vec<String> =
                (0..64).filter(|p| mask >> p & 1 != 0).map(|p| format!("p{p}")).collect();
            let _ = writeln!(text, "map {}[{bit}]={}", axis.name(), terms.join("^"));
        }
    }
    let _ = writeln!(text, "burst_bytes={}", memory.burst_bytes());
    let _ = writeln!(text, "burst_length={}\nunlisted_clocks=deselect", memory.burst_length);
    let _ = writeln!(text, "first_clock=0\nlast_clock={}", clocks - 1);
    text.push_str("columns=clock cke cs_n act_n ras_n cas_n we_n ba a\n---\n");
    let present = (1 << memory.ranks()) - 1;
    for (clock, pins) in commands {
        let level = u8::from;
        let _ = writeln!(
            text,
            "{clock} {:x} {:x} {} {} {} {} {:x} {:x}",
            pins.cke & present,
            pins.cs_n & present,
            level(pins.act_n),
            level(pins.ras_n),
            level(pins.cas_n),
            level(pins.we_n),
            pins.ba,
            pins.a
        );
    }
    text
}
