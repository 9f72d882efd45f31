//! Rows to row groups of a Parquet file, one capture in each.

use std::io::Write;

use ::parquet::file::metadata::KeyValue;
use ::parquet::file::writer::SerializedFileWriter;

use super::columns::Columns;
use super::encoder::Encoder;
use super::row_group::RowGroup;
use super::{Capture, KEY_CAPTURES, KEY_UNIT, KEY_VERSION, SCHEMA, TABLE_VERSION, properties};
use crate::table::turns::Turns;
use crate::table::{Accesses, Card, Entry, LeftOut, Row, TableError, Writer};

/// Writes Parquet.
pub struct ParquetWriter<W: Write + Send> {
    encoder: Encoder<W>,
    /// Each number in the column `capture`.
    captures: Vec<Capture>,
    /// The captures that go on, one for each card.
    open: Vec<Open>,
    /// Where each card is.
    turns: Turns,
}

/// A capture that goes on.
struct Open {
    card: u32,
    capture: u32,
    /// It has rows, written ones included.
    has_rows: bool,
    group: RowGroup,
}

impl<W: Write + Send + 'static> ParquetWriter<W> {
    /// Starts a file. Memory is needed for one row group of each card, and for two more: 17 MB each.
    pub fn new(output: W) -> Result<Self, TableError> {
        let properties = properties();
        let schema = SCHEMA.root_schema_ptr();
        let file = SerializedFileWriter::new(output, schema, properties.clone())?;
        let encoder = Encoder::start(file, Columns::new(properties)?)?;
        Ok(ParquetWriter {
            encoder,
            captures: Vec::new(),
            open: Vec::new(),
            turns: Turns::default(),
        })
    }

    /// Where the rows of a card are among the open captures.
    fn place(&mut self, card: u32) -> usize {
        if let Some(at) = self.open.iter().position(|open| open.card == card) {
            return at;
        }
        let capture = self.captures.len() as u32;
        let interface = self.turns.interface_of(card).map(str::to_owned);
        self.captures.push(Capture { card: u64::from(card) + 1, interface, report: None });
        self.open.push(Open { card, capture, has_rows: false, group: RowGroup::default() });
        self.open.len() - 1
    }

    fn restart(&mut self, card: u32) -> Result<(), TableError> {
        let at = self.place(card);
        if self.open[at].has_rows {
            self.write_group(at)?;
            self.open.remove(at);
            self.place(card);
        }
        Ok(())
    }

    fn write_group(&mut self, at: usize) -> Result<(), TableError> {
        let Open { capture, group, .. } = &mut self.open[at];
        if group.rows() != 0 {
            self.encoder.write(*capture, group)?;
        }
        Ok(())
    }
}

impl<W: Write + Send + 'static> Writer for ParquetWriter<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        if let Entry::Restart = row.entry {
            self.restart(row.capture)?;
        }
        let at = self.place(row.capture);
        let open = &mut self.open[at];
        open.has_rows = true;
        open.group.push(&row.entry)?;
        if open.group.is_full() {
            self.write_group(at)?;
        }
        Ok(())
    }

    fn accesses(&mut self, capture: u32, accesses: Accesses<'_>) -> Result<(), TableError> {
        let at = self.place(capture);
        let mut rest = accesses;
        loop {
            let open = &mut self.open[at];
            let count = open.group.extend(rest)?;
            open.has_rows |= count != 0;
            if open.group.is_full() {
                self.write_group(at)?;
            }
            if count == 0 {
                return Ok(());
            }
            rest = rest.after(count);
        }
    }

    fn card(&mut self, capture: u32, card: Card) {
        let at = self.place(capture);
        let capture = self.open[at].capture as usize;
        self.captures[capture].report = Some(card);
    }

    fn interface(&mut self, capture: u32, name: &str) {
        self.turns.interface(capture, name);
        let of_card = |found: &&mut Capture| found.index() == capture;
        for found in self.captures.iter_mut().filter(of_card) {
            found.interface = Some(name.to_owned());
        }
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        for at in 0..self.open.len() {
            self.write_group(at)?;
        }
        let mut file = self.encoder.finish()?;
        let captures = serde_json::to_string(&self.captures).map_err(std::io::Error::from)?;
        let mut state = |key: &str, value: String| {
            file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        };
        state(KEY_VERSION, TABLE_VERSION.into());
        state(KEY_UNIT, "DDR clock".into());
        if let Some(card) = self.captures.iter().rev().find_map(|capture| capture.report.as_ref()) {
            state("hmtt.tck_ps", card.tck_ps.to_string());
            state("hmtt.unit_bytes", card.unit_bytes.to_string());
            state("hmtt.format_version", card.format_version.to_string());
            state("hmtt.digest", card.digest.clone());
        }
        state(KEY_CAPTURES, captures);
        file.finish()?;
        file.inner_mut().flush()?;
        Ok(LeftOut::default())
    }
}
