//! Converts traces of programs to tables and to the formats of simulators.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use hmtt::access_trace::table::AccessWriter;
use hmtt::access_trace::table::csv::CsvWriter;
use hmtt::access_trace::table::jsonl::JsonlWriter;
#[cfg(feature = "parquet")]
use hmtt::access_trace::table::parquet::ParquetWriter;
use hmtt::access_trace::{Ending, Executed, ThreadAccess, Visitor};
use hmtt::cache::{CacheConfiguration, Hierarchy};
use hmtt::table::TableError;
use hmtt::table::requests::RequestSums;

use super::export::champsim::ChampSim;
use super::export::cut::Cut;
use super::export::drmemtrace::Drmemtrace;
use super::export::lackey::Lackey;
use super::export::requests::Requests;
use super::export::steps::{Exporter, LeftOut, NotWritten, Steps};
use super::file::{CHOSEN, read_to_end, what_is_missing};
use super::text;
use crate::format::{BUFFER_BYTES, EncodingOption, Format};
use crate::output::{cause, is_same_file, open};
use crate::simulator::{ClockUnit, SimulatorFile};

/// Message that refuses `--cache` for formats that are no requests.
pub const CACHE_IS_FOR_REQUESTS: &str =
    "--cache is for requests (ramulator, dramsim3, dramsys, libcachesim)";

/// A conversion of a program's trace.
pub struct Conversion<'c> {
    /// The open trace, and its path.
    pub trace: (File, &'c Path),
    /// Path of the output; `None` for standard output.
    pub output: Option<&'c Path>,
    /// Whether an existing file is overwritten.
    pub force: bool,
    /// Format of the output.
    pub to: Format,
    /// The only thread that is written; `None` for all threads.
    pub thread: Option<u32>,
    /// Whether each line of text states how many accesses it represents.
    pub weighted: bool,
    /// Whether each element of a repeated string instruction has a record.
    pub elements: bool,
    /// Levels of the caches whose misses and write-backs are written in place of accesses; `None`
    /// without caches.
    pub caches: Option<Vec<CacheConfiguration>>,
    /// The regions to be cut out of the trace; `None` for the whole trace.
    pub regions: Option<Vec<Region>>,
    /// Encodings of Parquet.
    pub encoding: EncodingOption,
}

/// A region of instructions that is cut out of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Numbers of the region's instructions, counted in their thread from 0.
    pub instructions: Range<u64>,
    /// Path of the region's file; `None` for the output of the conversion.
    pub output: Option<PathBuf>,
}

/// A visitor that writes each access to a table.
struct Rows {
    writer: Box<dyn AccessWriter>,
    written: Result<(), TableError>,
}

impl Visitor for Rows {
    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        if self.written.is_ok() {
            self.written = self.writer.access(executed, &access.made);
        }
    }
}

/// Prints a warning if something was left out. `name`: name of the output.
fn warn(name: &str, left_out: LeftOut) {
    let left_out = hmtt::table::LeftOut(left_out);
    if !left_out.is_nothing() {
        report!("hmtt: warning: {name} does not hold: {left_out}");
    }
}

/// Prints warnings on what is missing in a trace. Returns whether accesses are missing.
fn warn_of(path: &Path, ending: &Ending) -> bool {
    if ending.is_chosen {
        report!("hmtt: warning: {}: {CHOSEN}", path.display());
    }
    if let Some(region) = ending.region {
        report!("hmtt: warning: {}: {}", path.display(), region.request_text());
    }
    for what in what_is_missing(ending) {
        report!("hmtt: warning: {}: {what}", path.display());
    }
    ending.has_loss()
}

impl Conversion<'_> {
    /// Converts the trace. Returns whether accesses are missing in it.
    ///
    /// # Errors
    /// The trace is damaged. Or the output cannot be written, or its format does not hold accesses
    /// of programs.
    pub fn run(self) -> Result<bool> {
        let path = self.trace.1;
        if self.output.is_some_and(|output| is_same_file(path, output)) {
            bail!("{} is the trace itself; choose another output", path.display());
        }
        if matches!(self.to, Format::Pcapng | Format::Hmtt6) {
            bail!("{} holds what cards send, and not accesses of programs", self.to.name());
        }
        if self.caches.is_some() && self.to.simulator().is_none() {
            bail!(CACHE_IS_FOR_REQUESTS);
        }
        if self.to.is_of_simulators() {
            return self.export();
        }
        if self.regions.is_some() {
            bail!("{} has no instructions: regions are cut for simulators only", self.to.name());
        }
        let (output, file) = open(self.output, self.to, self.force)?;
        if self.to == Format::Text {
            let (trace, path) = self.trace;
            return output.end(text::print(trace, path, self.thread, self.weighted, file));
        }
        let name = output.name.clone();
        let read = self.table(file).with_context(|| format!("cannot write to {name}"))?;
        Ok(warn_of(path, &output.end(read)?))
    }

    /// Writes a format that simulators read. Returns whether accesses are missing.
    fn export(self) -> Result<bool> {
        let path = self.trace.1;
        let (ending, is_short) = match self.regions.as_deref() {
            None => {
                let (output, file) = open(self.output, self.to, self.force)?;
                let name = output.name.clone();
                let mut exporter = self.exporter(file)?;
                let (read, left_out) = self.steps(&name, &mut *exporter)?;
                warn(&name, left_out.into_iter().chain(exporter.left_out()).collect());
                let sums = exporter.sums();
                drop(exporter);
                let ending = output.end(read)?;
                self.state(self.output, sums);
                (ending, false)
            }
            Some(regions) => {
                let (mut pieces, mut outputs, mut name) = (Vec::new(), Vec::new(), String::new());
                for region in regions {
                    let output = region.output.as_deref().or(self.output);
                    if output.is_some_and(|output| is_same_file(path, output)) {
                        bail!("{} is the trace itself; choose another output", path.display());
                    }
                    let (output, file) = open(output, self.to, self.force)?;
                    name = output.name.clone();
                    outputs.push(output);
                    pieces.push((region.instructions.clone(), self.exporter(file)?));
                }
                let mut cut = Cut::new(pieces);
                let (read, left_out) = self.steps(&name, &mut cut)?;
                warn(&name, left_out.into_iter().chain(cut.left_out()).collect());
                let (is_short, sums) = (cut.is_short(), cut.sums_of_regions().to_vec());
                drop(cut);
                // Every file has the accesses before an error. The error itself is reported once.
                let ended = outputs.into_iter().map(|output| match &read {
                    Ok(_) => output.end(Ok(())),
                    Err(error) => output.end(Err(anyhow!("{error:#}"))),
                });
                let ended: Vec<Result<()>> = ended.collect();
                let ending = read?;
                ended.into_iter().collect::<Result<()>>()?;
                for (region, sums) in regions.iter().zip(sums) {
                    self.state(region.output.as_deref().or(self.output), sums);
                }
                (ending, is_short)
            }
        };
        Ok(warn_of(path, &ending) || is_short)
    }

    fn exporter<'w>(&self, output: impl Write + 'w) -> Result<Box<dyn Exporter + 'w>> {
        let output = BufWriter::with_capacity(BUFFER_BYTES, output);
        if let Some(simulator) = self.to.simulator() {
            let caches = self.caches.as_ref().map(|levels| Hierarchy::new(levels, None));
            let caches = caches.transpose().context("--cache")?;
            return Ok(Box::new(Requests::new(output, simulator, caches)));
        }
        Ok(match self.to {
            Format::Champsim => Box::new(ChampSim::new(output, self.elements)),
            Format::Drmemtrace => Box::new(Drmemtrace::new(output)),
            _ => Box::new(Lackey::new(output)),
        })
    }

    /// Describes the written file, and how to run the simulator that reads it.
    fn state(&self, output: Option<&Path>, sums: RequestSums) {
        let (format, has_caches) = (self.to, self.caches.is_some());
        let clock = ClockUnit::Instructions;
        SimulatorFile { format, path: output, sums, clock, has_caches }.report();
    }

    /// Writes a table. Returns the result of reading the trace.
    ///
    /// # Errors
    /// The output cannot be written.
    fn table(self, output: impl Write + Send + 'static) -> Result<Result<Ending>> {
        let buffered = |output| BufWriter::with_capacity(BUFFER_BYTES, output);
        let writer: Box<dyn AccessWriter> = match self.to {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let encodings = self.encoding.encodings();
                Box::new(ParquetWriter::with_encodings(output, encodings).map_err(cause)?)
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => bail!("{}", crate::format::NO_PARQUET),
            Format::Csv => Box::new(CsvWriter::new(buffered(output)).map_err(cause)?),
            _ => Box::new(JsonlWriter::new(buffered(output))),
        };
        let mut rows = Rows { writer, written: Ok(()) };
        let read = read_to_end(self.trace.0, self.trace.1, self.thread, &mut rows);
        // The table is completed even if reading failed, so that it has everything before the
        // damage.
        rows.written.and_then(|()| rows.writer.finish()).map_err(cause)?;
        Ok(read)
    }

    /// Passes all instructions on to an exporter. Returns the result of reading the trace, and
    /// counts of what was left out.
    ///
    /// # Errors
    /// The output cannot be written.
    fn steps(&self, name: &str, exporter: &mut dyn Exporter) -> Result<(Result<Ending>, LeftOut)> {
        let mut steps = Steps::new(exporter);
        let file = self.trace.0.try_clone()?;
        let read = read_to_end(file, self.trace.1, self.thread, &mut steps);
        // A trace of a region states the address of the instruction after the region.
        let next = read.as_ref().ok().and_then(|ending| ending.region?.next);
        let finished = steps.finish(next).with_context(|| format!("cannot write to {name}"));
        let NotWritten { unknown, elements, undecoded, strays } = finished?;
        if let Some(refused) = elements {
            report!("hmtt: warning: {name} does not hold {refused}");
        }
        let left_out = vec![
            ("accesses with unknown addresses", unknown),
            ("instructions that cannot be decoded", undecoded),
            ("accesses of such instructions", strays),
        ];
        Ok((read, left_out))
    }
}
