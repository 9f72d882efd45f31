//! Runs one case of hostile commands and settings against the model of the whole card, and stores a
//! case that fails.

use std::fmt::Write as _;
use std::path::Path;

use hmtt_sim::engine::{EngineError, Kind};
use hmtt_sim::fuzz::memories;
use hmtt_sim::oracle::Verdict;
use hmtt_sim::oracle::capture::Capture;
use hmtt_sim::oracle::case::{Case, Setup};
use hmtt_sim::replay::ReplayError;

use crate::fuzz::vector_text;

/// Why a case has no verdict.
#[derive(Debug)]
pub enum Failure {
    /// Verilator is not installed.
    Missing(String),
    /// The card differs from the model. The text names the files that reproduce it.
    Wrong(String),
}

/// Runs the case of a seed. If the card differs from the model, the files of the case are written
/// to `folder`.
pub fn try_seed(seed: u64, commands: usize, folder: &Path) -> Result<(Case, Verdict), Failure> {
    let (memory, setup) = Setup::of(seed);
    let case = Case::new(&memories::parse(memory), setup, seed, commands);
    match judge(&case) {
        Ok(verdict) => Ok((case, verdict)),
        Err(Failure::Wrong(wrong)) => Err(Failure::Wrong(kept(&case, memory, seed, folder, wrong))),
        Err(missing) => Err(missing),
    }
}

/// Runs a case on the compiled card and compares it with the model.
pub fn judge(case: &Case) -> Result<Verdict, Failure> {
    case.check(&capture(case)?).map_err(Failure::Wrong)
}

/// Runs a case on the compiled card.
pub fn capture(case: &Case) -> Result<Capture, Failure> {
    let (outcome, frames) = case.run(Kind::Verilator, None).map_err(|error| match error {
        ReplayError::Engine(error @ EngineError::VerilatorMissing) => {
            Failure::Missing(error.to_string())
        }
        error => Failure::Wrong(error.to_string()),
    })?;
    if !outcome.violations.is_empty() || !outcome.flaws.is_empty() {
        return Err(Failure::Wrong(format!("{:?} {:?}", outcome.violations, outcome.flaws)));
    }
    Capture::read(&frames).map_err(Failure::Wrong)
}

/// Writes the files of a case. Returns the difference and the command that reproduces it.
fn kept(case: &Case, memory: &str, seed: u64, folder: &Path, wrong: String) -> String {
    let name = folder.join(format!("oracle-{seed}"));
    let (vector, toml) = (name.with_extension("cmd"), name.with_extension("toml"));
    let text = vector_text(&case.memory, &case.commands, case.clocks);
    for (path, text) in [(&vector, text.as_str()), (&toml, memory)] {
        if let Err(error) = std::fs::write(path, text) {
            return format!("seed {seed}: {wrong}\n{}: {error}", path.display());
        }
    }
    format!("seed {seed}: {wrong}\nrun it again: {}", replay(case, &vector, &toml))
}

/// Returns the command line that repeats a case.
pub fn replay(case: &Case, vector: &Path, toml: &Path) -> String {
    let (straps, setup) = (case.straps, case.setup);
    let mut line = format!(
        "hmtt-sim replay {} --memory {} --engine verilator --oracle --mode {} --granularity {}",
        vector.display(),
        toml.display(),
        straps.mode.name(),
        straps.granularity.name(),
    );
    let micros = hmtt_format::config::slice_micros(straps.slice_code);
    let slice = if micros < 1000 { format!("{micros}us") } else { format!("{}ms", micros / 1000) };
    let _ = write!(line, " --slice {slice} --fifo {} --link-mbps {}", setup.fifo, setup.link_mbps);
    for (wanted, option) in [(straps.frequency, "--frequency"), (straps.analysis, "--analysis")] {
        if wanted {
            let _ = write!(line, " {option}");
        }
    }
    for off in &case.off {
        let _ = write!(line, " --switch-off {}:{}", off.start, off.end);
    }
    line
}
