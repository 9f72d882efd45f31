//! `hmtt analysis`: what the card's analysis found.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use hmtt_host::report::analysis::Analysis;

use super::capture_file::CaptureFile;

/// Say what the card's analysis found: hot pages with bounds, reuse distances, use of banks
#[derive(clap::Args)]
pub struct Arguments {
    /// The capture
    #[arg(value_name = "FILE.pcapng")]
    file: PathBuf,
    /// Print one JSON object a dump
    #[arg(long)]
    json: bool,
    /// Name at most this many hot pages a dump
    #[arg(long, value_name = "PAGES", default_value_t = 20)]
    top: usize,
}

/// Whether the capture has gaps.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let mut analysis = Analysis::default();
    let ending = CaptureFile::open(&arguments.file)?.read(|_| true, |item| analysis.item(&item))?;
    let dumps = analysis.finish();
    let mut incomplete = false;
    let mut output = std::io::stdout().lock();
    for mut dump in dumps {
        incomplete |= !dump.complete;
        dump.keep(arguments.top);
        if arguments.json {
            serde_json::to_writer(&mut output, &dump)?;
            writeln!(output)?;
        } else {
            write!(output, "{dump}")?;
        }
    }
    Ok(incomplete || ending.has_gaps())
}
