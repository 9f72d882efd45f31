//! Rows to row groups of a Parquet file, one capture in each.

use std::io::Write;

use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterPropertiesPtr;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::column_chunk::ConstantChunk;
use super::row_group::{ABSENT, RowGroup, Sparse};
use super::{
    Capture, Column, KEY_CAPTURES, KEY_UNIT, KEY_VERSION, SCHEMA, TABLE_VERSION, properties,
};
use crate::table::{Accesses, Card, Entry, LeftOut, Row, TableError, Writer};

/// Writes Parquet.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Columns,
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

impl<W: Write + Send> ParquetWriter<W> {
    /// Starts a file. Memory is needed for one row group of each link, 17 MB.
    pub fn new(output: W) -> std::result::Result<Self, TableError> {
        let properties = properties();
        let schema = SCHEMA.root_schema_ptr();
        let file = SerializedFileWriter::new(output, schema, properties.clone())?;
        let columns = Columns {
            properties,
            captures: ConstantChunk::new(Column::Capture),
            kinds: ConstantChunk::new(Column::Kind),
            reads: ConstantChunk::new(Column::Reads),
            writes: ConstantChunk::new(Column::Writes),
            durations: ConstantChunk::new(Column::Duration),
            starts: ConstantChunk::new(Column::Start),
            details: ConstantChunk::new(Column::Detail),
        };
        Ok(ParquetWriter { file, columns, captures: Vec::new(), open: Vec::new() })
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

    fn restart(&mut self, link: u32) -> Result<()> {
        let at = self.place(link);
        if self.open[at].has_rows {
            self.write_group(at)?;
            self.open.remove(at);
            self.place(link);
        }
        Ok(())
    }

    fn write_group(&mut self, at: usize) -> Result<()> {
        let open = &mut self.open[at];
        if open.group.rows() != 0 {
            let mut output = self.file.next_row_group()?;
            self.columns.write(&mut output, open.capture, &open.group)?;
            output.close()?;
            open.group.clear();
        }
        Ok(())
    }
}

impl<W: Write + Send> Writer for ParquetWriter<W> {
    fn row(&mut self, row: &Row) -> std::result::Result<(), TableError> {
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

    fn accesses(
        &mut self,
        capture: u32,
        accesses: Accesses<'_>,
    ) -> std::result::Result<(), TableError> {
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

    fn finish(mut self: Box<Self>) -> std::result::Result<LeftOut, TableError> {
        for at in 0..self.open.len() {
            self.write_group(at)?;
        }
        let captures = serde_json::to_string(&self.captures).map_err(std::io::Error::from)?;
        let mut state = |key: &str, value: String| {
            self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
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
        self.file.finish()?;
        self.file.inner_mut().flush()?;
        Ok(LeftOut::default())
    }
}

/// Writes the columns of row groups.
struct Columns {
    properties: WriterPropertiesPtr,
    captures: ConstantChunk<u32>,
    kinds: ConstantChunk<()>,
    reads: ConstantChunk<()>,
    writes: ConstantChunk<()>,
    durations: ConstantChunk<()>,
    starts: ConstantChunk<()>,
    details: ConstantChunk<()>,
}

impl Columns {
    fn write<W: Write + Send>(
        &mut self,
        output: &mut SerializedRowGroupWriter<'_, W>,
        capture: u32,
        group: &RowGroup,
    ) -> Result<()> {
        let (rows, properties) = (group.rows(), &self.properties);
        self.captures.append(output, properties, (capture, rows), |column| {
            write::<Int32Type>(column, &vec![capture as i32; rows], None)
        })?;
        column::<Int64Type, W>(output, &group.timestamps, None)?;
        if group.is_plain() {
            self.kinds.append(output, properties, ((), rows), |column| {
                write::<ByteArrayType>(column, &vec![ByteArray::from("access"); rows], None)
            })?;
        } else {
            column::<ByteArrayType, W>(output, &group.kinds(), None)?;
        }
        column::<BoolType, W>(output, &group.is_write, Some(&group.direction_levels()))?;
        column::<Int64Type, W>(output, &group.addresses, Some(&group.address_levels()))?;
        self.others(output, group)
    }

    /// The columns that accesses do not have.
    fn others<W: Write + Send>(
        &mut self,
        output: &mut SerializedRowGroupWriter<'_, W>,
        group: &RowGroup,
    ) -> Result<()> {
        if !group.is_plain() {
            sparse(output, &group.reads())?;
            sparse(output, &group.writes())?;
            sparse(output, &group.durations())?;
            sparse(output, &group.starts())?;
            return sparse(output, &group.details());
        }
        let rows = group.rows();
        let of_int32 = |column: &mut ColumnWriter<'_>| empty::<Int32Type>(column, rows);
        let of_int64 = |column: &mut ColumnWriter<'_>| empty::<Int64Type>(column, rows);
        let of_text = |column: &mut ColumnWriter<'_>| empty::<ByteArrayType>(column, rows);
        self.reads.append(output, &self.properties, ((), rows), of_int32)?;
        self.writes.append(output, &self.properties, ((), rows), of_int32)?;
        self.durations.append(output, &self.properties, ((), rows), of_int64)?;
        self.starts.append(output, &self.properties, ((), rows), of_int64)?;
        self.details.append(output, &self.properties, ((), rows), of_text)
    }
}

fn empty<T: DataType>(column: &mut ColumnWriter<'_>, rows: usize) -> Result<()> {
    write::<T>(column, &[], Some(&vec![ABSENT; rows]))
}

fn sparse<T: DataType, W: Write + Send>(
    output: &mut SerializedRowGroupWriter<'_, W>,
    column_of: &Sparse<T>,
) -> Result<()> {
    column::<T, W>(output, &column_of.values, Some(&column_of.levels))
}

fn column<T: DataType, W: Write + Send>(
    output: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let next = output.next_column()?;
    let mut next = next.ok_or_else(|| ParquetError::General("no such column".into()))?;
    write::<T>(next.untyped(), values, levels)?;
    next.close()
}

fn write<T: DataType>(
    column: &mut ColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let typed = T::get_column_writer_mut(column);
    let typed = typed.ok_or_else(|| ParquetError::General("a column of another type".into()))?;
    typed.write_batch(values, levels, None).map(drop)
}
