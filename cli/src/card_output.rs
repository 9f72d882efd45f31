//! Writes what cards have recorded: tables, text, and requests for simulators, with a paragraph on
//! how to run these.

use std::cell::Cell;
use std::io::BufWriter;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use hmtt::table::Writer;
use hmtt::table::hmtt6::MmioHole;
use hmtt::table::requests::{RequestSums, RequestWriter};

use super::format::{BUFFER_BYTES, EncodingOption, Format};
use super::output::{Outcome, Output, cause, open};
use super::simulator::{ClockUnit, SimulatorFile};

/// The output of a command that writes the rows of cards.
pub struct CardOutput<'p> {
    output: Output,
    path: Option<&'p Path>,
    format: Format,
    /// Sums of the requests, once all are written; `None` for tables and text.
    sums: Option<Rc<Cell<RequestSums>>>,
}

/// What a command states about the rows that it writes.
#[derive(Clone, Copy, Debug)]
pub struct RowOptions {
    /// For hmtt6: where physical addresses have a hole.
    pub hole: MmioHole,
    /// For Parquet: its encodings.
    pub encoding: EncodingOption,
    /// For requests: bytes of an access of which no row states them.
    pub unit_bytes: Option<u32>,
}

impl From<EncodingOption> for RowOptions {
    fn from(encoding: EncodingOption) -> Self {
        RowOptions { hole: MmioHole { base: 0 }, encoding, unit_bytes: None }
    }
}

impl<'p> CardOutput<'p> {
    /// Opens the output, as [`open`], and starts the file.
    ///
    /// # Errors
    /// The file exists, unless `force`; or it cannot be written.
    pub fn open(
        path: Option<&'p Path>,
        format: Format,
        force: bool,
        options: RowOptions,
    ) -> Result<(CardOutput<'p>, Box<dyn Writer>)> {
        let (output, file) = open(path, format, force)?;
        let RowOptions { hole, encoding, unit_bytes } = options;
        let mut sums = None;
        let writer: Box<dyn Writer> = match format.simulator() {
            Some(simulator) => {
                let file = BufWriter::with_capacity(BUFFER_BYTES, file);
                let writer = RequestWriter::new(file, simulator).with_unit(unit_bytes);
                sums = Some(writer.sums());
                Box::new(writer)
            }
            None => format
                .writer(file, hole, encoding)
                .map_err(cause)
                .with_context(|| format!("cannot write to {}", output.name))?,
        };
        Ok((CardOutput { output, path, format, sums }, writer))
    }

    /// Gives the file its name, as [`Output::end`]. States what it does not hold, and how to run a
    /// simulator with it.
    ///
    /// # Errors
    /// Reading or writing has failed, or the file cannot get its name.
    pub fn end<T>(self, Outcome { read, written }: Outcome<T>) -> Result<T> {
        let CardOutput { output, path, format, sums } = self;
        let cannot_write = || format!("cannot write to {}", output.name);
        let left_out = written.map_err(cause).with_context(cannot_write)?;
        if !left_out.is_nothing() {
            report!("hmtt: warning: {} does not hold: {left_out}", output.name);
        }
        let read = output.end(read)?;
        if let Some(sums) = sums {
            let (sums, clock, has_caches) = (sums.get(), ClockUnit::Bus, false);
            SimulatorFile { format, path, sums, clock, has_caches }.report();
        }
        Ok(read)
    }
}
