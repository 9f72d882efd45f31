//! `hmtt decode`: a capture to its accesses, as text, CSV or JSON lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hmtt_host::report::{Format, csv::Csv, jsonl::Jsonl, text::Text};

use super::capture_file::{CaptureFile, Ending, Found, Records, has_gaps};

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
    /// Only what this card sent, where there are several; `hmtt info` lists them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    card: Option<u16>,
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
    let mut output = Output {
        format: arguments.format,
        chosen: arguments.card.map(|number| usize::from(number) - 1),
        cards: Vec::new(),
        last: 0,
        buffer: BufWriter::with_capacity(BUFFER_BYTES, output),
        written: Ok(()),
    };
    let ending = output.decode(capture);
    output.finish().with_context(|| format!("cannot write to {name}"))?;
    let ending = ending?;
    match arguments.card {
        None => Ok(ending.has_gaps()),
        Some(number) => match ending.cards.get(usize::from(number) - 1) {
            Some(card) => Ok(has_gaps(&card.counts)),
            None => bail!("there is no card {number}; the capture has {}", ending.cards.len()),
        },
    }
}

/// Whether both paths lead to one file, links followed.
fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

impl FormatName {
    fn writer(self) -> Box<dyn Format> {
        match self {
            FormatName::Text => Box::<Text>::default(),
            FormatName::Csv => Box::<Csv>::default(),
            FormatName::Jsonl => Box::<Jsonl>::default(),
        }
    }
}

struct Output {
    format: FormatName,
    /// The only card that is wanted.
    chosen: Option<usize>,
    /// A writer for each card, which knows what the card reported.
    cards: Vec<Box<dyn Format>>,
    /// The card of the last item.
    last: usize,
    buffer: BufWriter<Box<dyn Write>>,
    /// The first failure; nothing is written after it.
    written: io::Result<()>,
}

impl Output {
    fn decode(&mut self, capture: CaptureFile) -> Result<Ending> {
        self.written = self.format.writer().start(&mut self.buffer);
        let failed = std::cell::Cell::new(self.written.is_err());
        capture.read(
            Records::Events,
            |_| !failed.get(),
            |found| {
                if !failed.get() {
                    self.written = self.write(&found);
                    failed.set(self.written.is_err());
                }
            },
        )
    }

    /// Says whose item it is where that changes, so that one card alone is never named.
    fn write(&mut self, found: &Found<'_>) -> io::Result<()> {
        let card = found.card;
        if self.chosen.is_some_and(|chosen| chosen != card) {
            return Ok(());
        }
        if self.cards.len() <= card {
            self.cards.resize_with(card + 1, || self.format.writer());
        }
        if card != std::mem::replace(&mut self.last, card) && self.chosen.is_none() {
            let interface = found.interfaces.get(usize::from(found.link));
            let name = interface.and_then(|interface| interface.name.as_deref());
            self.cards[card].card(card + 1, name, &mut self.buffer)?;
        }
        self.cards[card].item(&found.item, &mut self.buffer)
    }

    fn finish(mut self) -> io::Result<()> {
        self.written?;
        self.buffer.flush()
    }
}
