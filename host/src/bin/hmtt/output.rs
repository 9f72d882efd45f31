//! A format's name, and what is to be written in it, to its writer.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hmtt_host::decode::Item;
use hmtt_host::table::csv::Csv;
use hmtt_host::table::hmtt6::{Hmtt6, Hole};
use hmtt_host::table::jsonl::Jsonl;
use hmtt_host::table::parquet::ParquetWriter;
use hmtt_host::table::text::Text;
use hmtt_host::table::{Items, LeftOut, TableError, Writer};

use super::capture_file::{CaptureFile, Ending, Found};

pub const BUFFER_BYTES: usize = 1 << 20;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Pcapng,
    Parquet,
    Csv,
    Jsonl,
    Text,
    Hmtt6,
}

impl Format {
    /// The format that a file's name says it has.
    pub fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let (stem, extension) = name.rsplit_once('.')?;
        Some(match extension {
            "pcapng" => Format::Pcapng,
            "zst" if stem.ends_with(".pcapng") => Format::Pcapng,
            "parquet" => Format::Parquet,
            "csv" => Format::Csv,
            "jsonl" | "ndjson" => Format::Jsonl,
            "txt" => Format::Text,
            "trace" => Format::Hmtt6,
            _ => return None,
        })
    }

    /// Its writer; captures, which cannot be written, become text.
    pub fn writer(
        self,
        output: impl Write + Send + 'static,
        hole: Hole,
    ) -> Result<Box<dyn Writer>, TableError> {
        if self == Format::Parquet {
            return Ok(Box::new(ParquetWriter::new(output)?));
        }
        let output = BufWriter::with_capacity(BUFFER_BYTES, output);
        Ok(match self {
            Format::Csv => Box::new(Csv::new(output)?),
            Format::Jsonl => Box::new(Jsonl::new(output)?),
            Format::Hmtt6 => Box::new(Hmtt6::new(output, hole)),
            Format::Text | Format::Pcapng | Format::Parquet => Box::new(Text::new(output)?),
        })
    }
}

/// Creates a file; an existing one is refused unless `force`.
pub fn create(path: &Path, force: bool) -> Result<File> {
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

/// What became of a trace. What could be read has been written also where reading failed.
pub struct Outcome<T> {
    pub read: Result<T>,
    pub written: Result<LeftOut, TableError>,
}

/// Writes a capture, or what it has of one card, which are numbered from 0.
pub fn write_capture(
    capture: CaptureFile,
    chosen: Option<usize>,
    writer: Box<dyn Writer>,
) -> Outcome<Ending> {
    let mut items = Items::new(writer);
    if let Some(card) = chosen {
        items.only(card as u32);
    }
    let mut written = Ok(());
    let is_failed = std::cell::Cell::new(false);
    let read = capture.read(
        |_| !is_failed.get(),
        |found| {
            let is_wanted = chosen.is_none_or(|chosen| chosen == found.card);
            if is_wanted && !is_failed.get() {
                written = write(&mut items, &found);
                is_failed.set(written.is_err());
            }
        },
    );
    Outcome { read, written: written.and_then(|()| items.finish()) }
}

fn write(items: &mut Items<'_>, found: &Found<'_>) -> Result<(), TableError> {
    let card = found.card as u32;
    if let Some(name) = found.interface.and_then(|interface| interface.name.as_deref()) {
        items.interface(card, name);
    }
    items.accesses(card, found.accesses)?;
    found.item.as_ref().map_or(Ok(()), |item: &Item| items.item(card, item))
}

/// The error as what caused it, which tells a broken pipe from others.
pub fn cause(error: TableError) -> anyhow::Error {
    match error {
        TableError::File(error) => error.into(),
        other => other.into(),
    }
}

/// Whether both paths lead to one file, links of either sort followed.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
