//! Writes the accesses that cards have recorded: as tables, as text, or as requests for simulators.
//! After requests, prints a paragraph on how to run the simulator.

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

/// The open output of a command that writes rows of cards.
pub struct CardOutput<'p> {
    output: Output,
    path: Option<&'p Path>,
    format: Format,
    /// Sums of the requests, which are complete after the last request. `None` for tables and text.
    sums: Option<Rc<Cell<RequestSums>>>,
}

/// Options for the rows of one format.
#[derive(Clone, Copy, Debug)]
pub struct RowOptions {
    /// For hmtt6: the hole in physical addresses that is left for devices.
    pub hole: MmioHole,
    /// For Parquet: its encodings.
    pub encoding: EncodingOption,
    /// For requests: bytes of an access whose row states no size.
    pub unit_bytes: Option<u32>,
}

impl From<EncodingOption> for RowOptions {
    fn from(encoding: EncodingOption) -> Self {
        RowOptions { hole: MmioHole { base: 0 }, encoding, unit_bytes: None }
    }
}

impl<'p> CardOutput<'p> {
    /// Opens the output as [`open`] does, and starts the file.
    ///
    /// # Errors
    /// The file exists and `force` is not set, or the file cannot be written.
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

    /// Gives the file its name, as [`Output::end`] does. Reports rows that the format does not
    /// hold, and explains how to run a simulator on the file.
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
