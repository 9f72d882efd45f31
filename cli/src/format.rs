//! A format's name to what reads and writes it.

use std::io::{BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hmtt::table::csv::Csv;
use hmtt::table::hmtt6::{Hmtt6, Hole};
use hmtt::table::jsonl::Jsonl;
use hmtt::table::parquet::ParquetWriter;
use hmtt::table::text::Text;
use hmtt::table::{TableError, Writer};

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

/// Formats that a trace can be read from, as values of an option.
pub fn readable() -> impl TypedValueParser<Value = Format> {
    all_but(Format::Text)
}

/// Formats that a trace can be written in, as values of an option.
pub fn writable() -> impl TypedValueParser<Value = Format> {
    all_but(Format::Pcapng)
}

fn all_but(excluded: Format) -> impl TypedValueParser<Value = Format> {
    let offered = Format::value_variants().iter().filter(move |format| **format != excluded);
    PossibleValuesParser::new(offered.filter_map(ValueEnum::to_possible_value))
        .try_map(|name| Format::from_str(&name, false))
}
