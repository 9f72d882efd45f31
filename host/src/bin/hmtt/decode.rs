//! `hmtt decode`: a capture to its accesses, as text, CSV or JSON lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hmtt_host::report::{Format, csv::Csv, jsonl::Jsonl, text::Text};

use super::capture_file::{CaptureFile, Ending};

const BUFFER_BYTES: usize = 1 << 20;

/// Turn a capture into its accesses, every gap stated
#[derive(clap::Args)]
pub struct Arguments {
    /// The capture
    #[arg(value_name = "FILE.pcapng")]
    file: PathBuf,
    /// How to write accesses
    #[arg(long, value_enum, default_value_t = FormatName::Text)]
    format: FormatName,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// One `clock R|W address` line an access; everything else as # comments
    Text,
    /// Comma-separated, with a header line
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// Whether the capture has gaps.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let capture = CaptureFile::open(&arguments.file)?;
    let format: Box<dyn Format> = match arguments.format {
        FormatName::Text => Box::<Text>::default(),
        FormatName::Csv => Box::<Csv>::default(),
        FormatName::Jsonl => Box::<Jsonl>::default(),
    };
    let (name, output): (String, Box<dyn Write>) = match &arguments.output {
        None => ("standard output".into(), Box::new(io::stdout().lock())),
        Some(path) => {
            let name = path.display().to_string();
            if is_same_file(path, &arguments.file) {
                bail!("{name} is the capture itself; choose another output");
            }
            let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
            (name, Box::new(file))
        }
    };
    let mut output =
        Output { format, buffer: BufWriter::with_capacity(BUFFER_BYTES, output), written: Ok(()) };
    let ending = output.decode(capture);
    output.finish().with_context(|| format!("cannot write to {name}"))?;
    Ok(ending?.has_gaps())
}

/// Whether both paths lead to one file, links followed.
fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

struct Output {
    format: Box<dyn Format>,
    buffer: BufWriter<Box<dyn Write>>,
    /// The first failure; nothing is written after it.
    written: io::Result<()>,
}

impl Output {
    fn decode(&mut self, capture: CaptureFile) -> Result<Ending> {
        self.written = self.format.start(&mut self.buffer);
        let failed = std::cell::Cell::new(self.written.is_err());
        capture.read(
            |_| !failed.get(),
            |item| {
                if !failed.get() {
                    self.written = self.format.item(&item, &mut self.buffer);
                    failed.set(self.written.is_err());
                }
            },
        )
    }

    fn finish(mut self) -> io::Result<()> {
        self.written?;
        self.buffer.flush()
    }
}
