//! `hmtt tag --auto`: samples a process for a while and chooses the functions in which most time is
//! spent.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use hmtt_format::escape;
use hmtt_probe::control::{Output, Sampled, Samples, Start, Tagged, sample, verdicts};
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::ptrace::Process;
use hmtt_probe::selection::{Effect, Selection};
use nix::sys::signal::SigSet;

use super::end;

/// Smallest function that is chosen, in bytes. Smaller functions are called often in relation to
/// their time, so their tags cost much and show little.
const LEAST_BYTES: u64 = 32;

#[derive(clap::Args)]
pub struct Auto {
    /// Tag this many functions: those in which most time is spent, among those that the rules
    /// select. The program first runs untagged and is sampled a thousand times per second
    #[arg(long, value_name = "COUNT", conflicts_with = "follow")]
    auto: Option<usize>,
    /// Duration of the sampling
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = super::values::duration,
        requires = "auto")]
    auto_for: Duration,
}

impl Auto {
    /// Returns the process and the chosen functions; `None` if the process has ended and there is
    /// nothing to tag.
    pub fn choose(
        &self,
        process: Process,
        image: &Image,
        selection: Selection,
        start: Start,
        signals: SigSet,
    ) -> Result<Option<(Process, Selection, Start)>> {
        let Some(count) = self.auto else { return Ok(Some((process, selection, start))) };
        if selection.has_libraries() {
            process.detach()?;
            bail!(
                "--auto chooses functions of the program only and does not support rules for libraries"
            );
        }
        let nothing = Selection::parse([(Effect::Exclude, "*")])?;
        let watched = Tagged::new(process, image.clone(), nothing, Output::None, start)?;
        match sample(watched, signals, self.auto_for)? {
            Sampled::Ended(tagged, ending) => {
                report!("hmtt: nothing was tagged: sampling ended before the time of --auto-for");
                end::leave(*tagged, ending)?.exit_if_failed(false);
                Ok(None)
            }
            Sampled::Finished(process, samples) => {
                let chosen = worth(image, &selection, &samples, count);
                if chosen.is_empty() {
                    process.detach()?;
                    bail!(
                        "--auto: no time was spent in functions that can be chosen ({} samples)",
                        samples.all
                    );
                }
                Ok(Some((*process, selection.only(chosen), Start::Now)))
            }
        }
    }
}

/// Returns the first addresses of the functions in which most time is spent, and prints their
/// names. `count`: maximum number of functions.
fn worth(image: &Image, selection: &Selection, samples: &Samples, count: usize) -> BTreeSet<u64> {
    let good = verdicts(image).into_iter().filter(|(_, verdict)| verdict.is_ok());
    let good = good
        .map(|(function, _)| function)
        .filter(|function| function.size >= LEAST_BYTES && selection.matches(function, None));
    let mut good: Vec<(u64, &Function)> =
        good.map(|function| (samples.count_in(function), function)).collect();
    good.retain(|(hits, _)| *hits != 0);
    good.sort_by_key(|(hits, function)| (std::cmp::Reverse(*hits), function.start));
    good.truncate(count);
    for (hits, function) in &good {
        let share = *hits as f64 * 100.0 / samples.all as f64;
        let name = escape::name(&function.name);
        report!("hmtt: chose {name}: {share:.1} % of {} samples", samples.all);
    }
    good.into_iter().map(|(_, function)| function.start).collect()
}
