//! `hmtt check`: tests whether the clocks, addresses and sizes of accesses are possible values.

use std::io::{self, Write};

use anyhow::{Result, bail};
use hmtt::analysis::Analysis;
use hmtt::analysis::check::{Check, Checked, Kind, Place};
use serde_json::json;

use super::figures::counted;
use super::input::analyse;
use super::options::Options;
use super::output::{Forms, line, optional, write};

/// Check that clocks do not go back, addresses are in memory, and accesses have sizes and are
/// aligned
#[derive(clap::Args)]
#[command(
    after_help = "The exit status is 1 if anything is violated. What a file does not know is not checked."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
}

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (analysis, files) = analyse(&arguments.options, "hmtt check", Check::default())?;
    let checked = analysis.result();
    let rows = |output: &mut dyn Write| {
        checked.places.iter().try_for_each(|Place { kind, source, access, clock, address }| {
            let (kind, clock) = (name(*kind), optional(*clock));
            writeln!(output, "{kind},{source},{access},{clock},{address:#x}")
        })
    };
    let text = |output: &mut dyn Write| write_text(&checked, output);
    let heading = "kind,source,access,clock,address";
    let json = json!(checked);
    let forms = Forms { name: "check", json, heading, rows: &rows, text: &text };
    let incomplete = write(&arguments.options, files, forms)?;
    let violations = checked.kinds.iter().fold(0u64, |sum, of| sum.saturating_add(of.violations));
    if checked.has_violations() {
        bail!("{} found", counted(violations, "violation"));
    }
    Ok(incomplete)
}

/// The name of a check in JSON.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::ClockBack => "clock_back",
        Kind::BeyondMemory => "beyond_memory",
        Kind::Unaligned => "unaligned",
        Kind::BeyondEnd => "beyond_end",
        Kind::NoSize => "no_size",
    }
}

/// The rule that a check tests, in words.
fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::ClockBack => "clocks ascend",
        Kind::BeyondMemory => "addresses in memory",
        Kind::Unaligned => "addresses aligned",
        Kind::BeyondEnd => "accesses end in space",
        Kind::NoSize => "sizes are known",
    }
}

fn write_text(checked: &Checked, output: &mut dyn Write) -> io::Result<()> {
    line(output, "accesses", &checked.accesses.to_string())?;
    for kind in &checked.kinds {
        let value = match (kind.checked, kind.violations) {
            (false, _) => "not checked: the input does not know it".to_owned(),
            (true, 0) => "yes".to_owned(),
            (true, count) => format!("NO: {}", counted(count, "violation")),
        };
        line(output, what(kind.kind), &value)?;
    }
    line(output, "restarts", &checked.restarts.to_string())?;
    let lost = counted(checked.lost_accesses, "access");
    line(output, "gaps", &format!("{}, with {lost} whose number is known", checked.gap_count))?;
    if !checked.places.is_empty() {
        writeln!(
            output,
            "\n{:<14}  {:>6}  {:>14}  {:>20}  {:>16}",
            "violation", "source", "access", "clock", "address"
        )?;
    }
    for Place { kind, source, access, clock, address } in &checked.places {
        let (kind, clock) =
            (name(*kind), clock.map_or_else(|| "-".into(), |clock| clock.to_string()));
        writeln!(output, "{kind:<14}  {source:>6}  {access:>14}  {clock:>20}  {address:>#16x}")?;
    }
    Ok(())
}
