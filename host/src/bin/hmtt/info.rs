//! `hmtt info`: what a capture says of itself.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use hmtt_host::report::info::Info;

use super::capture_file::CaptureFile;

/// Say what a capture is: card, memory, settings, time covered, gaps
#[derive(clap::Args)]
pub struct Arguments {
    /// The capture
    #[arg(value_name = "FILE.pcapng")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Whether the capture has gaps.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let info = RefCell::new(Info::default());
    let ending = CaptureFile::open(&arguments.file)?.read(
        |packet| {
            info.borrow_mut().packet(packet);
            true
        },
        |item| info.borrow_mut().item(&item),
    )?;
    let has_gaps = ending.has_gaps();
    let info = info.into_inner().finish(ending.counts, &ending.interfaces);
    let mut output = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut output, &info)?;
        writeln!(output)?;
    } else {
        write!(output, "{info}")?;
    }
    Ok(has_gaps)
}
