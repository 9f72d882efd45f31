//! Defines the formats of traces, and selects the writer of a format.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hmtt::imported::ImportedFormat;
use hmtt::table::csv::CsvWriter;
use hmtt::table::hmtt6::{Hmtt6Writer, MmioHole};
use hmtt::table::jsonl::JsonlWriter;
#[cfg(feature = "parquet")]
use hmtt::table::parquet::{Encodings, ParquetWriter};
use hmtt::table::requests::Simulator;
use hmtt::table::text::TextWriter;
use hmtt::table::{TableError, Writer};

pub const BUFFER_BYTES: usize = 1 << 20;
pub const NO_PARQUET: &str =
    "this hmtt was built without Parquet; build it with the cargo feature `parquet`";
pub const NO_CAPTURES: &str =
    "cannot write pcapng: a capture holds a card's frames, which no other format keeps";

/// A file format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Pcapng,
    Parquet,
    Csv,
    Jsonl,
    Text,
    Hmtt6,
    Ramulator,
    Dramsim3,
    Dramsys,
    Libcachesim,
    Champsim,
    Lackey,
    Drmemtrace,
    Perf,
    Gem5,
}

/// Encodings of a Parquet file, as a value of an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ParquetEncoding {
    /// PLAIN and dictionaries: every reader decodes them
    #[default]
    Compatible,
    /// Fewer bytes and faster to write; only current readers decode them
    Small,
}

#[cfg(feature = "parquet")]
impl From<ParquetEncoding> for Encodings {
    fn from(encoding: ParquetEncoding) -> Self {
        match encoding {
            ParquetEncoding::Compatible => Encodings::Compatible,
            ParquetEncoding::Small => Encodings::Small,
        }
    }
}

/// The option `--encoding` of commands that write Parquet.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct EncodingOption {
    /// Encodings of a Parquet file [default: compatible]
    #[arg(long, value_enum, value_name = "ENCODING")]
    encoding: Option<ParquetEncoding>,
}

impl EncodingOption {
    /// The encodings of Parquet files that the option selects.
    #[cfg(feature = "parquet")]
    pub fn encodings(self) -> Encodings {
        self.encoding.unwrap_or_default().into()
    }

    /// Rejects the option for formats other than Parquet.
    pub fn check(self, format: Format) -> Result<()> {
        if self.encoding.is_some() && format != Format::Parquet {
            bail!("--encoding is for Parquet, and the output is {}", format.name());
        }
        Ok(())
    }
}

impl Format {
    /// The format that the extension of a path selects; `None` if it selects none.
    pub fn from_path(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let (stem, extension) = name.rsplit_once('.')?;
        Some(match extension {
            "pcapng" | "pcap" => Format::Pcapng,
            "zst" | "gz" | "lz4" if stem.ends_with(".pcapng") || stem.ends_with(".pcap") => {
                Format::Pcapng
            }
            "parquet" => Format::Parquet,
            "csv" => Format::Csv,
            "jsonl" | "ndjson" => Format::Jsonl,
            "txt" => Format::Text,
            "trace" => Format::Hmtt6,
            "stl" => Format::Dramsys,
            "oraclegeneral" => Format::Libcachesim,
            _ => return None,
        })
    }

    /// The name of the format on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether the format is made for simulators only.
    pub fn is_of_simulators(self) -> bool {
        self.simulator().is_some() || self.has_instructions()
    }

    /// The simulator that reads requests in this format; `None` for formats without requests.
    pub fn simulator(self) -> Option<Simulator> {
        Some(match self {
            Format::Ramulator => Simulator::Ramulator,
            Format::Dramsim3 => Simulator::Dramsim3,
            Format::Dramsys => Simulator::Dramsys,
            Format::Libcachesim => Simulator::LibCacheSim,
            _ => return None,
        })
    }

    /// The format of another program that this name selects for reading; `None` if there is none.
    /// The first bytes of a file may resolve it further.
    pub fn imported(self) -> Option<ImportedFormat> {
        Some(match self {
            Format::Ramulator => ImportedFormat::Ramulator,
            Format::Dramsim3 => ImportedFormat::Dramsim3,
            Format::Dramsys => ImportedFormat::Dramsys,
            Format::Libcachesim => ImportedFormat::LibCacheSim,
            Format::Champsim => ImportedFormat::ChampSim,
            Format::Lackey => ImportedFormat::Lackey,
            Format::Drmemtrace => ImportedFormat::Drmemtrace,
            Format::Perf => ImportedFormat::Perf,
            Format::Gem5 => ImportedFormat::Gem5,
            _ => return None,
        })
    }

    /// Whether `hmtt` can write the format.
    fn is_writable(self) -> bool {
        !matches!(self, Format::Pcapng | Format::Perf | Format::Gem5)
    }

    /// Whether the format has instructions of programs. A capture has none, so it cannot be written
    /// in this format.
    pub fn has_instructions(self) -> bool {
        matches!(self, Format::Champsim | Format::Lackey | Format::Drmemtrace)
    }

    /// Selects the format in which rows of cards are written: the format that the user names,
    /// otherwise the format of the output's extension, otherwise text.
    ///
    /// # Errors
    /// The extension selects captures.
    pub fn of_rows(named: Option<Format>, output: Option<&Path>) -> Result<Format> {
        let format = named.or_else(|| Format::from_path(output?)).unwrap_or(Format::Text);
        if format == Format::Pcapng {
            bail!(NO_CAPTURES);
        }
        Ok(format)
    }

    /// Creates the writer of a table. For formats that are no tables (captures, requests,
    /// instructions) it writes text.
    pub fn writer(
        self,
        output: impl Write + Send + 'static,
        hole: MmioHole,
        encoding: EncodingOption,
    ) -> Result<Box<dyn Writer>, TableError> {
        #[cfg(feature = "parquet")]
        if self == Format::Parquet {
            return Ok(Box::new(ParquetWriter::with_encodings(output, encoding.encodings())?));
        }
        let output = BufWriter::with_capacity(BUFFER_BYTES, output);
        Ok(match self {
            Format::Csv => Box::new(CsvWriter::new(output)?),
            Format::Jsonl => Box::new(JsonlWriter::new(output)?),
            Format::Hmtt6 => Box::new(Hmtt6Writer::new(output, hole)),
            // Reached only if this program is built without Parquet.
            Format::Parquet => return Err(TableError::Schema(NO_PARQUET.into())),
            _ => Box::new(TextWriter::new(output)?),
        })
    }
}

/// Parses the name of a format that a trace can be read from.
pub fn readable() -> impl TypedValueParser<Value = Format> {
    only(|format| {
        let is_imported = format.imported().is_some();
        format != Format::Text && (is_imported || !format.is_of_simulators())
    })
}

/// Parses the name of a format that the traces of cards can be written in.
pub fn writable_for_cards() -> impl TypedValueParser<Value = Format> {
    only(|format| format.is_writable() && !format.has_instructions())
}

/// Parses the name of a format that any trace can be written in.
pub fn writable() -> impl TypedValueParser<Value = Format> {
    only(Format::is_writable)
}

fn only(is_offered: fn(Format) -> bool) -> impl TypedValueParser<Value = Format> {
    let offered = Format::value_variants().iter().filter(move |format| is_offered(**format));
    PossibleValuesParser::new(offered.filter_map(ValueEnum::to_possible_value))
        .try_map(|name| Format::from_str(&name, false))
}
