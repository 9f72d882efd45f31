//! `hmtt info`: prints a description of a capture, or of a trace of a program.

use std::path::PathBuf;

use anyhow::Result;
use hmtt::report::info::{Info, Packets};

use super::capture_file::{CaptureFile, Ending};
use super::standard_io::{name_of_input, print};
#[cfg(feature = "tag")]
use super::trace;

/// Describe a capture (card, memory, settings, time covered, gaps) or a trace of a program
#[derive(clap::Args)]
pub struct Arguments {
    /// The capture, or what `hmtt trace` has written; - is standard input, for captures
    #[arg(value_name = "FILE.pcapng")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. Returns whether the capture has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    #[cfg(feature = "tag")]
    if let Some(trace) = trace::file::open(&arguments.file) {
        return trace::info::run(trace, &arguments.file, arguments.json);
    }
    let mut info = Info::default();
    let mut packets = Packets::default();
    let ending = CaptureFile::open(&arguments.file)?.count(
        |packet| {
            packets.packet(packet);
            true
        },
        |batch| {
            if let Some(item) = &batch.item {
                info.item(batch.card, item);
            }
        },
    )?;
    let (has_loss, checked) =
        (ending.has_loss(), ending.check_card(&name_of_input(&arguments.file)));
    let Ending { counts, cards, interfaces, .. } = ending;
    let info = info.finish(packets, counts, cards, interfaces);
    print(|output| {
        if arguments.json {
            hmtt_format::json::to_writer(&mut *output, &info)?;
            writeln!(output)
        } else {
            write!(output, "{info}")
        }
    })?;
    checked?;
    Ok(has_loss)
}
