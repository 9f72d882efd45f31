//! Converts traces of accesses to tables, and to the formats of simulators.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::access_trace::table::AccessWriter;
use hmtt::access_trace::table::csv::CsvWriter;
use hmtt::access_trace::table::jsonl::JsonlWriter;
#[cfg(feature = "parquet")]
use hmtt::access_trace::table::parquet::ParquetWriter;
use hmtt::access_trace::{Ending, Executed, ThreadAccess, Visitor};
use hmtt::table::TableError;
use hmtt::table::requests::Simulator;

use super::export::champsim::ChampSim;
use super::export::drmemtrace::Drmemtrace;
use super::export::lackey::Lackey;
use super::export::requests::Requests;
use super::export::steps::{Exporter, NotWritten, Steps};
use super::file::{CHOSEN, read_to_end, what_is_missing};
use super::text;
use crate::format::{BUFFER_BYTES, Format};
use crate::output::{cause, is_same_file, open};

/// A trace that is converted.
pub struct Conversion<'c> {
    /// The trace, and its path.
    pub trace: (File, &'c Path),
    /// Where it is written; `None` for standard output.
    pub output: Option<&'c Path>,
    /// Whether an existing file is overwritten.
    pub force: bool,
    /// The format in which it is written.
    pub to: Format,
    /// The only thread that is written; `None` for all.
    pub thread: Option<u32>,
    /// Whether each line of text states how many accesses it represents.
    pub weighted: bool,
}

/// Passes accesses on to a table.
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

/// Counts of what an export leaves out, with descriptions.
type LeftOut = Vec<(&'static str, u64)>;

/// Prints a warning if something was left out. `name`: of the output.
fn warn(name: &str, left_out: LeftOut) {
    let left_out = hmtt::table::LeftOut(left_out);
    if !left_out.is_nothing() {
        report!("hmtt: warning: {name} does not hold: {left_out}");
    }
}

impl Conversion<'_> {
    /// Converts the trace. Returns whether something is missing in it.
    ///
    /// # Errors
    /// It is damaged, or the output cannot be written or does not hold accesses of programs.
    pub fn run(self) -> Result<bool> {
        let path = self.trace.1;
        if self.output.is_some_and(|output| is_same_file(path, output)) {
            bail!("{} is the trace itself; choose another output", path.display());
        }
        if matches!(self.to, Format::Pcapng | Format::Hmtt6) {
            bail!("{} holds what cards send, and not accesses of programs", self.to.name());
        }
        let (name, output) = open(self.output, self.to, self.force)?;
        if self.to == Format::Text {
            let (file, path) = self.trace;
            return text::print(file, path, self.thread, self.weighted, output);
        }
        let ending = if self.to.is_of_simulators() {
            self.export(&name, output)?
        } else {
            self.table(output).with_context(|| format!("cannot write to {name}"))?
        };
        if ending.is_chosen {
            report!("hmtt: warning: {}: {CHOSEN}", path.display());
        }
        for what in what_is_missing(&ending) {
            report!("hmtt: warning: {}: {what}", path.display());
        }
        Ok(ending.has_loss())
    }

    fn table(self, output: impl Write + Send + 'static) -> Result<Ending> {
        let buffered = |output| BufWriter::with_capacity(BUFFER_BYTES, output);
        let writer: Box<dyn AccessWriter> = match self.to {
            #[cfg(feature = "parquet")]
            Format::Parquet => Box::new(ParquetWriter::new(output).map_err(cause)?),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => bail!("{}", crate::format::NO_PARQUET),
            Format::Csv => Box::new(CsvWriter::new(buffered(output)).map_err(cause)?),
            _ => Box::new(JsonlWriter::new(buffered(output))),
        };
        let mut rows = Rows { writer, written: Ok(()) };
        let read = read_to_end(self.trace.0, self.trace.1, self.thread, &mut rows);
        // What precedes damage is written.
        rows.written.and_then(|()| rows.writer.finish()).map_err(cause)?;
        read
    }

    fn export(self, name: &str, output: impl Write) -> Result<Ending> {
        let output = BufWriter::with_capacity(BUFFER_BYTES, output);
        match self.to {
            Format::Champsim => {
                let mut exporter = ChampSim::new(output);
                let (ending, mut left_out) = self.steps(name, &mut exporter)?;
                left_out.push(("instructions of other threads", exporter.others));
                left_out.push(("accesses that do not fit in records", exporter.unplaced));
                warn(name, left_out);
                Ok(ending)
            }
            Format::Ramulator | Format::Dramsim3 => {
                let simulator = match self.to {
                    Format::Ramulator => Simulator::Ramulator,
                    _ => Simulator::Dramsim3,
                };
                let mut exporter = Requests::new(output, simulator);
                let (ending, mut left_out) = self.steps(name, &mut exporter)?;
                left_out.push(("accesses beyond 2^63", exporter.out_of_range));
                warn(name, left_out);
                Ok(ending)
            }
            Format::Drmemtrace => self.plain(name, &mut Drmemtrace::new(output)),
            _ => self.plain(name, &mut Lackey::new(output)),
        }
    }

    /// Exports in a format that holds all accesses whose addresses are known.
    fn plain(self, name: &str, exporter: &mut dyn Exporter) -> Result<Ending> {
        let (ending, left_out) = self.steps(name, exporter)?;
        warn(name, left_out);
        Ok(ending)
    }

    /// Passes all instructions on. Returns what was left out.
    fn steps(self, name: &str, exporter: &mut dyn Exporter) -> Result<(Ending, LeftOut)> {
        let mut steps = Steps::new(exporter);
        let read = read_to_end(self.trace.0, self.trace.1, self.thread, &mut steps);
        let finished = steps.finish().with_context(|| format!("cannot write to {name}"));
        let NotWritten { unknown, elements, undecoded, strays } = finished?;
        if let Some(refused) = elements {
            report!("hmtt: warning: {name} does not hold {refused}");
        }
        let left_out = vec![
            ("accesses with unknown addresses", unknown),
            ("instructions that cannot be decoded", undecoded),
            ("accesses of such instructions", strays),
        ];
        Ok((read?, left_out))
    }
}
