//! `hmtt merge`: merges captures of several cards into one trace, and prints the time base of each
//! on standard error.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use hmtt::CardId;
use hmtt::decode::Item;
use hmtt::merge::{CardSession, ClockBasis, Merge, Options, TimeBase};
use hmtt::table::Items;
use hmtt_format::escape;
use serde_json::json;

use super::card_output::CardOutput;
use super::format::{EncodingOption, Format, writable_for_cards};
use super::output::{Outcome, is_same_file};
use super::standard_io::is_standard;

/// Merge the traces of several cards on one time base, and state the error
#[derive(clap::Args)]
#[command(
    after_help = "Sources are the cards of all captures, numbered from 1 in the order of the captures; \
    the first one's clock is that of the merged trace. Clocks are related by marks that both cards saw; \
    without any, by the arrival times of frames; or by the offset that is given."
)]
pub struct Arguments {
    /// The captures
    #[arg(value_name = "FILE.pcapng", required = true)]
    files: Vec<PathBuf>,
    /// Write to this file instead of standard output; its extension selects the format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the output; by default that of the output's extension, or text
    #[arg(long, value_parser = writable_for_cards())]
    format: Option<Format>,
    /// Overwrite FILE
    #[arg(short, long)]
    force: bool,
    /// Add this to the clocks of a source, whatever marks and arrivals say
    #[arg(long, value_name = "SOURCE=CLOCKS", value_parser = parse_offset, allow_hyphen_values = true)]
    offset: Vec<(CardId, i64)>,
    /// Longest time between the moments at which two cards see the same mark, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 1000)]
    skew: u32,
    /// Longest time that the fastest frame of a card takes to arrive, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000)]
    latency: u32,
    /// State the time bases as one JSON object, on standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    encoding: EncodingOption,
}

fn parse_offset(text: &str) -> Result<(CardId, i64)> {
    let (source, clocks) = text.split_once('=').context("expected SOURCE=CLOCKS")?;
    let source: usize = source.parse().context("SOURCE is a number")?;
    let source = source.checked_sub(1).context("sources are numbered from 1")?;
    Ok((CardId(source), clocks.parse().context("CLOCKS is a whole number")?))
}

/// Runs the command. Returns whether the trace has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let options = Options {
        offsets: arguments.offset.clone(),
        skew_nanos: f64::from(arguments.skew),
        latency_nanos: f64::from(arguments.latency) * 1e3,
    };
    if arguments.files.iter().any(|file| is_standard(file)) {
        bail!(
            "captures are read more than once to be merged, and standard input is not; name a file"
        );
    }
    if let Some(output) = &arguments.output
        && arguments.files.iter().any(|file| is_same_file(file, output))
    {
        bail!("{} is one of the captures; choose another output", output.display());
    }
    let merge = Merge::survey(&arguments.files, &options)?;
    let mut warned = Vec::new();
    for (session, _) in merge.sessions() {
        if let Some(offset) = session.truncated_at
            && !warned.contains(&&session.file)
        {
            warned.push(&session.file);
            report!(
                "hmtt: warning: {}: ends within the block at offset {offset}; read up to there",
                session.file.display()
            );
        }
    }
    let mut mismatched = Vec::new();
    for (session, _) in merge.sessions().filter(|(session, _)| session.captures_mismatched != 0) {
        if !mismatched.contains(&session.source) {
            mismatched.push(session.source);
            report!(
                "hmtt: warning: {}: the records of card {} stand for other bursts than it counted; see \
                 `hmtt info`",
                session.file.display(),
                session.card
            );
        }
    }
    if arguments.json {
        state_json(&merge)?;
    } else {
        state(&merge);
    }
    write(&merge, arguments)
}

fn write(merge: &Merge, arguments: &Arguments) -> Result<bool> {
    let path = arguments.output.as_deref();
    let format = Format::of_rows(arguments.format, path)?;
    arguments.encoding.check(format)?;
    let options = arguments.encoding.into();
    let (output, writer) = CardOutput::open(path, format, arguments.force, options)?;
    let mut items = Items::new(writer);
    for (number, (session, _)) in merge.sessions().enumerate() {
        items.interface(CardId(number), &session.to_string());
    }
    let is_damaged =
        |session: &CardSession| session.truncated_at.is_some() || session.captures_mismatched != 0;
    let has_loss = merge.sessions().any(|(session, _)| is_damaged(session));
    let (mut written, mut has_loss) = (Ok(()), has_loss);
    let read = merge.run(|session, item| {
        has_loss |= match &item {
            Item::Gap(gap) => gap.is_loss(),
            Item::Malformed { .. } => true,
            _ => false,
        };
        written = items.item(CardId(session), &item);
        written.is_ok()
    });
    // Everything that was read is written, even if reading failed later.
    let written = written.and_then(|()| items.finish());
    output.end(Outcome { read: read.map_err(anyhow::Error::from), written })?;
    Ok(has_loss)
}

/// Prints one line on each card session: how its clock is related to the common time base.
fn state(merge: &Merge) {
    for (number, (session, base)) in merge.sessions().enumerate() {
        let session = session.to_string();
        report!("{}: {}: {}", number + 1, escape::name(&session), describe(base, merge));
    }
}

/// Describes how a session's clock was related to the common time base, and the error of that
/// relation.
fn describe(base: &TimeBase, merge: &Merge) -> String {
    let period = merge.sessions().next().map_or(1.0, |(first, _)| first.period());
    let offset = base.offset();
    match (base.basis, base.error) {
        (ClockBasis::Reference, _) => format!("the reference; clock 0 becomes {offset:.0}"),
        (ClockBasis::Offset { clocks }, _) => {
            format!("offset {clocks} clocks, as given; its error is not known")
        }
        (basis, error) => {
            let by = match basis {
                ClockBasis::Marks { shared: 1 } => "by 1 shared mark".to_owned(),
                ClockBasis::Marks { shared } => format!("by {shared} shared marks"),
                _ => "by arrival times".to_owned(),
            };
            let error = error.unwrap_or_default();
            let (rate, nanos) = (base.rate(), error * period);
            format!(
                "{by}; clock 0 becomes {offset:.0}, {rate:.9} clocks for each; error at most \
                 {error:.0} clocks ({nanos:.0} ns)"
            )
        }
    }
}

fn state_json(merge: &Merge) -> Result<()> {
    let entry = |(session, base): (&CardSession, &TimeBase)| {
        json!({
            "file": &*session.file, "interface": session.interface.as_deref(), "card": session.card.0 + 1,
            "source": session.source.0 + 1, "restarts_before": session.restarts_before,
            "tck_ps": session.tck_ps, "first_clock": session.first, "last_clock": session.last,
            "basis": base.basis, "offset_clocks": base.offset(), "clock_ratio": base.rate(),
            "error_clocks": base.error,
        })
    };
    let sessions: Vec<_> = merge.sessions().map(entry).collect();
    let mut output = io::stderr().lock();
    let written = hmtt_format::json::to_writer(&mut output, &json!({ "sessions": sessions }));
    written
        .map_err(io::Error::from)
        .and_then(|()| writeln!(output))
        .context("cannot write the time bases")
}
