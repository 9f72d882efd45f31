//! `hmtt convert`: a trace from one format to another, with complaints on standard error.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hmtt_host::table::csv::{Csv, CsvReader};
use hmtt_host::table::hmtt6::{Hmtt6, Hmtt6Reader, Hole};
use hmtt_host::table::jsonl::{Jsonl, JsonlReader};
use hmtt_host::table::parquet::{ParquetReader, ParquetWriter};
use hmtt_host::table::text::Text;
use hmtt_host::table::{Card, Entry, Items, LeftOut, Reader, TableError, Writer};

use super::capture_file::{CaptureFile, Records};

const BUFFER_BYTES: usize = 1 << 20;
const GIB_LOG2: u32 = 30;

/// Turn a trace into another format: a capture, Parquet, CSV, JSON lines, text, 6-byte records
#[derive(clap::Args)]
#[command(after_help = "Formats and their extensions: pcapng (.pcapng, read only), parquet \
    (.parquet), csv (.csv), jsonl (.jsonl), text (.txt, written only), hmtt6 (.trace): the HMTT \
    group's published 6-byte records. What a format cannot hold is counted on standard error.")]
pub struct Arguments {
    /// The trace
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where to write it
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of IN, if its extension does not say
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,
    /// Format of OUT, if its extension does not say
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Format>,
    /// Overwrite OUT
    #[arg(short, long)]
    force: bool,
    /// For hmtt6: physical addresses have a hole of this size from this address on, for devices
    #[arg(long, value_name = "GIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=128))]
    hole: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Pcapng,
    Parquet,
    Csv,
    Jsonl,
    Text,
    Hmtt6,
}

impl Format {
    fn of(path: &Path, option: &str) -> Result<Format> {
        let extension =
            path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        Ok(match extension.as_deref().unwrap_or_default() {
            "pcapng" => Format::Pcapng,
            "parquet" => Format::Parquet,
            "csv" => Format::Csv,
            "jsonl" | "ndjson" => Format::Jsonl,
            "txt" => Format::Text,
            "trace" => Format::Hmtt6,
            _ => bail!("{}: the extension says no format; give {option}", path.display()),
        })
    }
}

/// Whether the trace has gaps.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { input, output, from, to, force, hole } = arguments;
    let from = from.map_or_else(|| Format::of(input, "--from"), Ok)?;
    let to = to.map_or_else(|| Format::of(output, "--to"), Ok)?;
    let hole = Hole { base: hole << GIB_LOG2 };
    if is_same_file(input, output) {
        bail!("{} is the trace itself; choose another output", output.display());
    }
    let source = Source::open(input, from, hole)?;
    if to == Format::Pcapng {
        bail!("cannot write pcapng: a capture holds a card's frames, which no other format keeps");
    }
    let file = create(output, *force)?;
    let cannot_write = || format!("cannot write to {}", output.display());
    let writer = writer(file, to, hole, &source).with_context(cannot_write)?;
    let Outcome { has_gaps, read, written } = source.convert(writer);
    let left_out = written.with_context(cannot_write)?;
    if !left_out.is_nothing() {
        eprintln!("hmtt: warning: {} does not hold: {left_out}", output.display());
    }
    read?;
    Ok(has_gaps)
}

/// What became of a conversion. What could be read has been written also where reading failed.
struct Outcome {
    has_gaps: bool,
    read: Result<()>,
    written: Result<LeftOut, TableError>,
}

/// The trace to convert.
enum Source {
    Capture(CaptureFile),
    Table { name: String, reader: Box<dyn Reader>, captures: bool, cards: Vec<(u32, Card)> },
}

impl Source {
    fn open(path: &Path, format: Format, hole: Hole) -> Result<Source> {
        if format == Format::Pcapng {
            return Ok(Source::Capture(CaptureFile::open(path)?));
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
        let buffered = |file| BufReader::with_capacity(BUFFER_BYTES, file);
        let (mut captures, mut cards) = (false, Vec::new());
        let reader: Box<dyn Reader> = match format {
            Format::Parquet => {
                let reader = ParquetReader::new(file).with_context(|| name.clone())?;
                captures = reader.has_links();
                cards = reader.cards().map(|(link, card)| (link, card.clone())).collect();
                Box::new(reader)
            }
            Format::Csv => {
                let reader = CsvReader::new(buffered(file)).with_context(|| name.clone())?;
                captures = reader.has_captures();
                Box::new(reader)
            }
            Format::Jsonl => Box::new(JsonlReader::new(buffered(file))),
            Format::Hmtt6 => Box::new(Hmtt6Reader::new(buffered(file), hole)),
            Format::Pcapng | Format::Text => {
                bail!("{name}: text is for people and cannot be read back; use csv or jsonl")
            }
        };
        Ok(Source::Table { name, reader, captures, cards })
    }

    /// Whether rows may be of several links or cards.
    fn has_captures(&self) -> bool {
        matches!(self, Source::Table { captures: true, .. })
    }

    fn convert(self, writer: Box<dyn Writer>) -> Outcome {
        match self {
            Source::Capture(capture) => convert_capture(capture, writer),
            Source::Table { name, reader, cards, .. } => {
                convert_table(&name, reader, &cards, writer)
            }
        }
    }
}

fn convert_capture(capture: CaptureFile, writer: Box<dyn Writer>) -> Outcome {
    let mut items = Items::new(writer);
    let mut written = Ok(());
    let is_failed = Cell::new(false);
    let read = capture.read(
        Records::Events,
        |_| !is_failed.get(),
        |found| {
            if !is_failed.get() {
                written = items.item(found.card as u32, &found.item);
                is_failed.set(written.is_err());
            }
        },
    );
    let written = written.and_then(|()| items.finish());
    Outcome {
        has_gaps: read.as_ref().is_ok_and(|ending| ending.has_gaps()),
        read: read.map(drop),
        written,
    }
}

fn convert_table(
    name: &str,
    mut reader: Box<dyn Reader>,
    cards: &[(u32, Card)],
    mut writer: Box<dyn Writer>,
) -> Outcome {
    let mut has_gaps = false;
    cards.iter().for_each(|(link, card)| writer.card(*link, card.clone()));
    let mut written = Ok(());
    let read = loop {
        match reader.next_row() {
            Ok(Some(row)) => {
                has_gaps |= matches!(row.entry, Entry::Gap(_));
                written = writer.row(&row);
                if written.is_err() {
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(anyhow::Error::from(error).context(name.to_owned())),
        }
    };
    Outcome { has_gaps, read, written: written.and_then(|()| writer.finish()) }
}

fn writer(
    file: File,
    format: Format,
    hole: Hole,
    source: &Source,
) -> Result<Box<dyn Writer>, TableError> {
    if format == Format::Parquet {
        return Ok(Box::new(ParquetWriter::new(file)?));
    }
    let output = BufWriter::with_capacity(BUFFER_BYTES, file);
    Ok(match format {
        Format::Csv => Box::new(Csv::new(output, source.has_captures())?),
        Format::Jsonl => Box::new(Jsonl::new(output)),
        Format::Hmtt6 => Box::new(Hmtt6::new(output, hole)),
        Format::Text | Format::Pcapng | Format::Parquet => Box::new(Text::new(output)?),
    })
}

fn create(path: &Path, force: bool) -> Result<File> {
    let name = path.display();
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if force {
        options.create(true)
    } else {
        options.create_new(true)
    };
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{name} exists; give -f to overwrite it")
        }
        opened => opened.with_context(|| format!("cannot create {name}")),
    }
}

/// Whether both paths lead to one file, links of either sort followed.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
