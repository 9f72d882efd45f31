//! `hmtt decode`: decodes a capture and writes its accesses as text, a table, or requests for
//! simulators.

#[cfg(feature = "tag")]
use std::fs::File;
use std::path::PathBuf;

use anyhow::{Result, bail};
use hmtt::CardId;

use super::capture_file::{CaptureFile, Ending, NoCard};
use super::card_output::CardOutput;
use super::format::{EncodingOption, Format, writable_for_cards};
use super::output::{Outcome, is_same_file, write_capture};
#[cfg(feature = "tag")]
use super::trace::{self, convert::Conversion};

/// Decode a capture, or a trace of a program, to its accesses, and state every gap
#[derive(clap::Args)]
#[command(
    after_help = "text has a line `clock R|W address` for each access, and everything else as # comments. `hmtt convert --help` \
    says what the other formats are."
)]
pub struct Arguments {
    /// The capture, or what `hmtt trace` has written; - is standard input, for captures
    #[arg(value_name = "FILE.pcapng")]
    file: PathBuf,
    /// Format of the output; by default that of the output's extension, or text
    #[arg(long, value_parser = writable_for_cards())]
    format: Option<Format>,
    /// Write only what this card sent, if there are several; `hmtt info` lists them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    card: Option<u16>,
    /// Write only this thread of a program's trace; `hmtt info` lists them
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Print how many accesses of its block each access of a program's trace represents, as x3
    #[arg(long)]
    weighted: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite FILE
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    encoding: EncodingOption,
}

/// Writes the accesses of a program's trace. Returns whether accesses are missing.
#[cfg(feature = "tag")]
fn write_accesses(trace: File, arguments: &Arguments) -> Result<bool> {
    let path = arguments.output.as_deref();
    if arguments.card.is_some() {
        bail!("{} is a trace of a program, and not of a card", arguments.file.display());
    }
    let to = Format::of_rows(arguments.format, path)?;
    let (trace, force) = ((trace, arguments.file.as_path()), arguments.force);
    let Arguments { thread, weighted, encoding, .. } = *arguments;
    encoding.check(to)?;
    if weighted && to != Format::Text {
        bail!("tables have a column with what an access represents: leave out --weighted");
    }
    let (elements, regions) = (false, None);
    let caches = None;
    Conversion {
        trace,
        output: path,
        force,
        to,
        thread,
        weighted,
        elements,
        caches,
        regions,
        encoding,
    }
    .run()
}

/// Runs the command. Returns whether the capture has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    #[cfg(feature = "tag")]
    if let Some(trace) = trace::file::open(&arguments.file) {
        return write_accesses(trace, arguments);
    }
    if arguments.thread.is_some() || arguments.weighted {
        let file = arguments.file.display();
        bail!("{file} is no trace of a program, to which --thread and --weighted apply");
    }
    let capture = CaptureFile::open(&arguments.file)?;
    let path = arguments.output.as_deref();
    if let Some(path) = path.filter(|path| is_same_file(&arguments.file, path)) {
        bail!("{} is the capture itself; choose another output", path.display());
    }
    let format = Format::of_rows(arguments.format, path)?;
    arguments.encoding.check(format)?;
    let options = arguments.encoding.into();
    let (output, writer) = CardOutput::open(path, format, arguments.force, options)?;
    let chosen = arguments.card.map(|number| CardId(usize::from(number) - 1));
    let Outcome { read, written } = write_capture(capture, chosen, writer);
    let read = read.and_then(|ending| has_loss(&ending, arguments.card));
    output.end(Outcome { read, written })
}

/// Whether a capture has losses; or, with `card`, whether the frames of that card have losses.
fn has_loss(ending: &Ending, card: Option<u16>) -> Result<bool> {
    let Some(number) = card else { return Ok(ending.has_loss()) };
    match ending.cards.get(usize::from(number) - 1) {
        Some(card) => Ok(ending.is_cut || card.counts.has_loss()),
        None => {
            let cards = ending.cards.len();
            Err(NoCard(format!("there is no card {number}; the capture has {cards}")).into())
        }
    }
}
