//! `hmtt convert`: converts a trace from one format to another, and prints warnings on standard
//! error.

mod imported;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hmtt::CardId;
use hmtt::table::csv::CsvReader;
use hmtt::table::hmtt6::{Hmtt6Reader, MmioHole};
use hmtt::table::jsonl::JsonlReader;
#[cfg(feature = "parquet")]
use hmtt::table::parquet::ParquetReader;
use hmtt::table::requests::LINE_BYTES;
use hmtt::table::{Card, Entry, Reader, Row, Writer};

use self::imported::{Import, Opened};
use super::capture_file::CaptureFile;
use super::card_output::{CardOutput, RowOptions};
use super::format::{BUFFER_BYTES, EncodingOption, Format, NO_CAPTURES, readable, writable};
use super::output::{Outcome, is_same_file, write_capture};
use super::standard_io::{input, is_standard, name_of_input};
#[cfg(feature = "tag")]
use super::trace::{
    self,
    caches::CacheArgument,
    convert::{Conversion, Region},
};
#[cfg(feature = "tag")]
use hmtt::cache::Hierarchy;

const GIB_LOG2: u32 = 30;

/// Convert a trace of a card or of a program to another format: Parquet, CSV, JSON lines, text,
/// what simulators read
#[derive(clap::Args)]
#[command(
    after_help = "Formats and their extensions: pcapng (.pcapng, .pcap, both also with .zst, .gz or .lz4, read only), parquet \
    (.parquet), csv (.csv), jsonl (.jsonl), text (.txt, written only), hmtt6 (.trace): the HMTT \
    group's published 6-byte records. Requests for simulators of memories: ramulator \
    (Ramulator 2, LoadStoreTrace), dramsim3, dramsys (.stl), libcachesim (.oracleGeneral). What \
    other programs have recorded is recognised by its content, compressed (gzip, zstd, lz4) or not, or named with --from: lackey, \
    drmemtrace, champsim, gem5 (packets), perf (perf.data or text of perf script), dramsim3, dramsys, ramulator (requests or instructions), libcachesim \
    (oracleGeneral or CSV). What `hmtt trace` has written is recognised, and can also be written as champsim, lackey \
    (Valgrind) and drmemtrace (DynamoRIO, text). What a format cannot hold is counted \
    on standard error."
)]
pub struct Arguments {
    /// The trace; - is standard input, of which captures and what other programs have recorded are
    /// recognised
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where to write it; - is standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of IN, if its extension does not say
    #[arg(long, value_parser = readable(), value_name = "FORMAT")]
    from: Option<Format>,
    /// Format of OUT, if its extension does not say
    #[arg(long, value_parser = writable(), value_name = "FORMAT")]
    to: Option<Format>,
    /// Overwrite OUT
    #[arg(short, long)]
    force: bool,
    /// Write only this thread of a program's trace; without this option champsim has the first one
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// For text of a program's trace: print how many accesses each one represents, as hmtt decode
    /// --weighted
    #[arg(long)]
    weighted: bool,
    /// For simulators: leave out the first N instructions of the thread
    #[arg(long, value_name = "N", conflicts_with = "simpoints")]
    skip: Option<u64>,
    /// For simulators: write only M instructions of the thread
    #[arg(long, value_name = "M", conflicts_with = "simpoints", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// For simulators: write each interval that this file of SimPoint lists, to a file of its own
    /// beside OUT
    #[arg(long, value_name = "FILE", requires = "interval")]
    simpoints: Option<PathBuf>,
    /// The weights that belong to --simpoints; by default the file with weights for simpoints in
    /// its name
    #[arg(long, value_name = "FILE", requires = "simpoints")]
    weights: Option<PathBuf>,
    /// Instructions of an interval, as for hmtt monitor --bbv
    #[arg(long, value_name = "N", requires = "simpoints", value_parser = clap::value_parser!(u64).range(1..))]
    interval: Option<u64>,
    /// For champsim: write a record for each element of a repeated string instruction, as Pin does
    #[arg(long)]
    elements: bool,
    /// For requests of a program's trace: write what caches read from memory and write back, in
    /// place of all accesses: `desktop`, or one cache, as l1=32K,8,64,lru: its level, size, ways,
    /// size of a line, replacement; once for each
    #[cfg(feature = "tag")]
    #[arg(long, value_name = "CACHE")]
    cache: Vec<CacheArgument>,
    /// For hmtt6: physical addresses have a hole of this size from this address on, for devices
    #[arg(long, value_name = "GIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=128))]
    hole: u64,
    #[command(flatten)]
    encoding: EncodingOption,
}

impl Arguments {
    /// Whether the user has given an option that applies only to traces of programs.
    fn is_of_program(&self) -> bool {
        let Arguments { skip, count, simpoints, elements, weighted, thread, .. } = self;
        let has_region = skip.is_some() || count.is_some() || simpoints.is_some();
        has_region || *elements || *weighted || thread.is_some()
    }

    /// Opens the input if its first bytes are needed: to find out its format, or to resolve a
    /// format name that several formats of other programs share. Otherwise returns `None`.
    fn open(&self) -> Result<Option<Opened>> {
        let is_needed = self.from.is_none_or(|from| from.imported().is_some());
        let is_file = is_standard(&self.input) || self.input.is_file();
        (is_needed && is_file).then(|| Opened::open(&self.input)).transpose()
    }

    /// The conversion of a file that another program has written; `None` for other files.
    fn import(&self, opened: &Opened) -> Result<Option<Import<'_>>> {
        let Arguments { input, output, from, to, force, encoding, .. } = self;
        let format = opened.format(*from).with_context(|| name_of_input(input))?;
        let Some(from) = format else { return Ok(None) };
        if self.is_of_program() {
            bail!("{} is no trace of hmtt: regions and threads are not cut out", input.display());
        }
        let to = to.map_or_else(|| format_of(output, "--to"), Ok)?;
        encoding.check(to)?;
        if is_same_file(input, output) {
            bail!("{} is the trace itself; choose another output", output.display());
        }
        #[cfg(feature = "tag")]
        let caches = match trace::caches::levels(&self.cache)? {
            Some(_) if to.simulator().is_none() => bail!(trace::convert::CACHE_IS_FOR_REQUESTS),
            levels => levels.map(|levels| Hierarchy::new(&levels, None)).transpose()?,
        };
        Ok(Some(Import {
            input,
            from,
            output,
            to,
            force: *force,
            encoding: *encoding,
            #[cfg(feature = "tag")]
            caches,
        }))
    }

    /// The regions to be cut out; `None` without an option for regions.
    #[cfg(feature = "tag")]
    fn regions(&self) -> Result<Option<Vec<Region>>> {
        if let Some((list, length)) = self.simpoints.as_ref().zip(self.interval) {
            let weights = self.weights.clone().or_else(|| trace::simpoints::weights_of(list));
            let weights = weights.context("give the file of weights (--weights)")?;
            if is_standard(&self.output) {
                bail!("--simpoints writes several files; name an output");
            }
            let regions = trace::simpoints::regions(list, &weights, length, &self.output)?;
            return Ok(Some(regions));
        }
        if self.skip.is_none() && self.count.is_none() {
            return Ok(None);
        }
        let first = self.skip.unwrap_or(0);
        let end = self.count.map_or(u64::MAX, |count| first.saturating_add(count));
        Ok(Some(vec![Region { instructions: first..end, output: None }]))
    }
}

fn format_of(path: &Path, option: &str) -> Result<Format> {
    let no_format =
        || format!("{}: the extension selects no format; give {option}", path.display());
    Format::from_path(path).with_context(no_format)
}

/// Runs the command. Returns whether the trace has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { input, output, from, to, force, hole, encoding, .. } = arguments;
    #[cfg(feature = "tag")]
    if let Some(trace) = trace::file::open(input) {
        let to = to.map_or_else(|| format_of(output, "--to"), Ok)?;
        let (trace, output) = ((trace, input.as_path()), Some(output.as_path()));
        let Arguments { thread, weighted, elements, encoding, .. } = *arguments;
        encoding.check(to)?;
        if weighted && to != Format::Text {
            bail!("--weighted is for text: tables have a column with what an access represents");
        }
        if elements && to != Format::Champsim {
            bail!("--elements is for champsim: other formats have all elements");
        }
        let (force, regions) = (*force, arguments.regions()?);
        let caches = trace::caches::levels(&arguments.cache)?;
        let conversion = Conversion {
            trace,
            output,
            force,
            to,
            thread,
            weighted,
            elements,
            caches,
            regions,
            encoding,
        };
        return conversion.run();
    }
    let mut capture = None;
    if let Some(opened) = arguments.open()? {
        if let Some(import) = arguments.import(&opened)? {
            return import.run(opened);
        }
        // Standard input cannot be opened again by the reader of captures, so the capture continues
        // from the bytes already read.
        capture = Some(opened).filter(|opened| is_standard(input) && opened.is_capture());
    }
    #[cfg(feature = "tag")]
    if !arguments.cache.is_empty() {
        bail!("--cache is for traces of programs: what a card records is behind the caches");
    }
    if arguments.is_of_program() {
        bail!(
            "{} is no trace of a program: it has no threads, instructions, nor weights",
            input.display()
        );
    }
    let from = match (from, &capture) {
        (Some(from), _) => *from,
        (None, Some(_)) => Format::Pcapng,
        (None, None) => format_of(input, "--from")?,
    };
    let to = to.map_or_else(|| format_of(output, "--to"), Ok)?;
    encoding.check(to)?;
    let hole = MmioHole { base: hole << GIB_LOG2 };
    if is_same_file(input, output) {
        bail!("{} is the trace itself; choose another output", output.display());
    }
    let source = match capture {
        Some(capture) => Source::Capture(Box::new(capture.into_capture()?)),
        None => Source::open(input, from, hole)?,
    };
    if to == Format::Pcapng {
        bail!(NO_CAPTURES);
    }
    if to.has_instructions() {
        bail!("{} has instructions, which only traces of programs have", to.name());
    }
    let unit_bytes = (from == Format::Hmtt6).then_some(LINE_BYTES as u32);
    let options = RowOptions { hole, encoding: *encoding, unit_bytes };
    let (output, writer) = CardOutput::open(Some(output), to, *force, options)?;
    output.end(source.convert(writer))
}

/// The open trace that is converted.
enum Source {
    Capture(Box<CaptureFile>),
    Table(Box<Table>),
}

/// An open table. Its first row is read early, so that a file without a readable row leaves no
/// output.
struct Table {
    name: String,
    reader: Box<dyn Reader>,
    cards: Vec<(CardId, Card)>,
    first: Option<Row>,
}

impl Source {
    fn table(
        name: String,
        mut reader: Box<dyn Reader>,
        cards: Vec<(CardId, Card)>,
    ) -> Result<Source> {
        let first = reader.next_row().with_context(|| name.clone())?;
        Ok(Source::Table(Box::new(Table { name, reader, cards, first })))
    }

    fn open(path: &Path, format: Format, hole: MmioHole) -> Result<Source> {
        if format == Format::Pcapng {
            return Ok(Source::Capture(Box::new(CaptureFile::open(path)?)));
        }
        let name = name_of_input(path);
        if is_standard(path) && format == Format::Parquet {
            bail!("Parquet begins at its end, which standard input does not have; name a file");
        }
        let file = if is_standard(path) { input() } else { File::open(path) };
        let file = file.with_context(|| format!("{name}: cannot open"))?;
        if format == Format::Parquet {
            return Source::open_parquet(name, file);
        }
        let buffered = |file| BufReader::with_capacity(BUFFER_BYTES, file);
        let reader: Box<dyn Reader> = match format {
            Format::Csv => Box::new(CsvReader::new(buffered(file)).with_context(|| name.clone())?),
            Format::Jsonl => Box::new(JsonlReader::new(buffered(file))),
            Format::Hmtt6 => Box::new(Hmtt6Reader::new(buffered(file), hole)),
            Format::Text => {
                bail!("{name}: text is for people and cannot be read back; use csv or jsonl")
            }
            _ => bail!("{name}: {} is written only", format.name()),
        };
        Source::table(name, reader, Vec::new())
    }

    #[cfg(feature = "parquet")]
    fn open_parquet(name: String, file: File) -> Result<Source> {
        let reader = ParquetReader::new(file).with_context(|| name.clone())?;
        let cards = reader.cards().map(|(id, card)| (id, card.clone())).collect();
        Source::table(name, Box::new(reader), cards)
    }

    #[cfg(not(feature = "parquet"))]
    fn open_parquet(name: String, _: File) -> Result<Source> {
        bail!("{name}: {}", super::format::NO_PARQUET)
    }

    /// Converts the trace. Returns whether it has losses.
    fn convert(self, writer: Box<dyn Writer>) -> Outcome<bool> {
        match self {
            Source::Capture(capture) => {
                let Outcome { read, written } = write_capture(*capture, None, writer);
                Outcome { read: read.map(|ending| ending.has_loss()), written }
            }
            Source::Table(table) => convert_table(*table, writer),
        }
    }
}

fn convert_table(table: Table, mut writer: Box<dyn Writer>) -> Outcome<bool> {
    let Table { name, mut reader, cards, mut first } = table;
    let mut has_loss = false;
    cards.iter().for_each(|(id, card)| writer.card(*id, card.clone()));
    let mut written = Ok(());
    let mut last = None;
    let read = loop {
        let next = first.take().map_or_else(|| reader.next_row(), |row| Ok(Some(row)));
        match next {
            Ok(Some(row)) => {
                has_loss |= matches!(&row.entry, Entry::Gap(gap) if gap.is_loss());
                if last.replace(row.card) != Some(row.card)
                    && let Some(name) = reader.interface(row.card)
                {
                    writer.interface(row.card, name);
                }
                written = writer.row(&row);
                if written.is_err() {
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(anyhow::Error::from(error).context(name)),
        }
    };
    Outcome { read: read.map(|()| has_loss), written: written.and_then(|()| writer.finish()) }
}
