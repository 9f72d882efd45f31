//! `hmtt analysis`: prints the results of the analysis that the card has made itself.

use std::path::PathBuf;

use anyhow::Result;
use hmtt::report::analysis::Analysis;

use super::capture_file::CaptureFile;
use super::standard_io::{name_of_input, print};

/// Print the card's analysis: hot pages with bounds, reuse distances, use of banks
#[derive(clap::Args)]
pub struct Arguments {
    /// The capture; - is standard input
    #[arg(value_name = "FILE.pcapng")]
    file: PathBuf,
    /// Print one JSON object per dump
    #[arg(long)]
    json: bool,
    /// List at most this many hot pages per dump
    #[arg(long, value_name = "PAGES", default_value_t = 20)]
    top: usize,
}

/// Runs the command. Returns whether the capture has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let mut cards: Vec<Analysis> = Vec::new();
    let capture = CaptureFile::open(&arguments.file)?;
    let ending = capture.read(
        |_| true,
        |batch| {
            if cards.len() <= batch.card.0 {
                cards.resize_with(batch.card.0 + 1, Analysis::default);
            }
            if let Some(item) = &batch.item {
                cards[batch.card.0].item(item);
            }
        },
    )?;
    let dumps: Vec<_> = cards.into_iter().flat_map(Analysis::finish).collect();
    let mut incomplete = dumps.is_empty();
    if incomplete {
        let name = name_of_input(&arguments.file);
        report!(
            "hmtt: {name}: no results of a card's analysis are in it: the card did not analyse"
        );
    }
    print(|output| {
        for mut dump in dumps {
            incomplete |= !dump.complete;
            dump.keep(arguments.top);
            if arguments.json {
                hmtt_format::json::to_writer(&mut *output, &dump)?;
                writeln!(output)?;
            } else {
                write!(output, "{dump}")?;
            }
        }
        Ok(())
    })?;
    Ok(incomplete || ending.has_loss())
}
