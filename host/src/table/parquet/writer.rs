//! Rows to row groups of a Parquet file, one capture in each.

use std::io::Write;

use ::parquet::file::metadata::KeyValue;
use ::parquet::file::writer::SerializedFileWriter;

use super::columns::Columns;
use super::encoder::Encoder;
use super::row_group::RowGroup;
use super::{Capture, KEY_CAPTURES, KEY_UNIT, KEY_VERSION, SCHEMA, TABLE_VERSION, properties};
use crate::table::{Accesses, Card, Entry, LeftOut, Row, TableError, Writer};

/// Writes Parquet.
pub struct ParquetWriter<W: Write + Send> {
    encoder: Encoder<W>,
    /// Each number in the column `capture`.
    captures: Vec<Capture>,
    /// The captures that go on, one for each link.
    open: Vec<Open>,
}

/// A capture that goes on.
struct Open {
    link: u32,
    capture: u32,
    /// It has rows, written ones included.
    has_rows: bool,
    group: RowGroup,
}

impl<W: Write + Send + 'static> ParquetWriter<W> {
    /// Starts a file. Memory is needed for one row group of each link, and for two more: 17 MB each.
    pub fn new(output: W) -> Result<Self, TableError> {
        let properties = properties();
        let schema = SCHEMA.root_schema_ptr();
        let file = SerializedFileWriter::new(output, schema, properties.clone())?;
        let encoder = Encoder::start(file, Columns::new(properties))?;
        Ok(ParquetWriter { encoder, captures: Vec::new(), open: Vec::new() })
    }

    /// Where the rows of a link are among the open captures.
    fn place(&mut self, link: u32) -> usize {
        if let Some(at) = self.open.iter().position(|open| open.link == link) {
            return at;
        }
        let capture = self.captures.len() as u32;
        self.captures.push(Capture { link, card: None });
        self.open.push(Open { link, capture, has_rows: false, group: RowGroup::default() });
        self.open.len() - 1
    }

    fn restart(&mut self, link: u32) -> Result<(), TableError> {
        let at = self.place(link);
        if self.open[at].has_rows {
            self.write_group(at)?;
            self.open.remove(at);
            self.place(link);
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
        self.captures[capture].card = Some(card);
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
        if let Some(card) = self.captures.iter().rev().find_map(|capture| capture.card.as_ref()) {
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
