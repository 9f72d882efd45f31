//! Prints outcomes: a progress bar during the run, then verdicts on standard output and the summary
//! on standard error. With `--json` prints one object on standard output instead.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::Result;
use hmtt_format::escape;
use hmtt_sim::oracle::Verdict;
use hmtt_sim::replay::Outcome;
use hmtt_sim::truth::compare::Comparison;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::args::ReplayArguments;

const BAR: &str = "{wide_bar} {human_pos}/{human_len} clocks, {per_sec}, {eta} left";
const SPINNER: &str = "{spinner} {human_pos} clocks, {per_sec}";

/// A progress bar, shown only on a terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar. `clocks`: length of the recording, if known.
    pub fn new(clocks: Option<u64>, quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(clocks, target);
        let template = if clocks.is_some() { BAR } else { SPINNER };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }

    /// Sets the bar to `clocks` simulated clocks, including those after the recording.
    pub fn at(&self, clocks: u64) {
        let most = self.bar.length().unwrap_or(clocks);
        self.bar.set_position(clocks.min(most));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the function that is called before a card is compiled. It announces the compilation on
/// standard error unless `quiet`, because a compilation takes up to a minute without output.
pub fn compiling(quiet: bool) -> fn(&Path) {
    if quiet {
        |_| {}
    } else {
        |model| {
            report!(
                "compiling the card with verilator, once: this can take a minute; kept as {}",
                model.display()
            );
        }
    }
}

/// Prints the outcome of a replay.
pub fn print(
    outcome: &Outcome,
    comparisons: &[Comparison],
    arguments: &ReplayArguments,
) -> Result<()> {
    for violation in &outcome.violations {
        report!("link: {violation}");
    }
    for at in &outcome.flaws {
        report!("frame {}: {}", at.frame, at.flaw);
    }
    if arguments.json {
        return print_json(outcome, comparisons);
    }
    for comparison in comparisons {
        if !arguments.quiet || !comparison.equal() {
            println!("{}", escape::lines(&comparison.to_string()));
        }
    }
    if !arguments.quiet {
        report!("{}", outcome.summary);
    }
    Ok(())
}

/// Prints the verdict of the card's model. Returns whether the card agrees with the model.
pub fn print_verdict(verdict: &Result<Verdict, String>, arguments: &ReplayArguments) -> bool {
    match verdict {
        Ok(Verdict { lost_command: true, .. }) => {
            report!("oracle: the card lost a command; what follows it cannot be checked");
        }
        Ok(verdict) if !arguments.quiet => {
            let Verdict { lost, dumps, .. } = verdict;
            report!("oracle: equal to the model; {lost} records lost, {dumps} dumps");
        }
        Ok(_) => {}
        Err(difference) => report!("oracle: {difference}"),
    }
    verdict.is_ok()
}

fn print_json(outcome: &Outcome, comparisons: &[Comparison]) -> Result<()> {
    let verdict = |comparison: &Comparison| json!({ "equal": comparison.equal(), "text": comparison.to_string() });
    let mut object = serde_json::to_value(&outcome.summary)?;
    object["comparisons"] = comparisons.iter().map(verdict).collect();
    println!("{}", serde_json::to_string_pretty(&object)?);
    Ok(())
}
