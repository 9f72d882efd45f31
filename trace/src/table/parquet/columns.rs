//! Writes the columns of a row group to the file.

use std::io::Write;

use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::properties::WriterPropertiesPtr;
use ::parquet::file::writer::SerializedRowGroupWriter;

use super::Column;
use super::column_chunk::ConstantChunk;
use super::pages::Pages;
use super::row_group::{ABSENT, RowGroup, Sparse};

/// A writer of the columns of row groups.
pub(super) struct Columns {
    properties: WriterPropertiesPtr,
    pages: Pages,
    sessions: ConstantChunk<u32>,
    kinds: ConstantChunk<()>,
    reads: ConstantChunk<()>,
    writes: ConstantChunk<()>,
    durations: ConstantChunk<()>,
    starts: ConstantChunk<()>,
    details: ConstantChunk<()>,
}

impl Columns {
    /// Creates a writer with these encodings.
    pub fn new(properties: WriterPropertiesPtr) -> Result<Self> {
        Ok(Columns {
            properties,
            pages: Pages::new()?,
            sessions: ConstantChunk::new(Column::Session),
            kinds: ConstantChunk::new(Column::Kind),
            reads: ConstantChunk::new(Column::Reads),
            writes: ConstantChunk::new(Column::Writes),
            durations: ConstantChunk::new(Column::Duration),
            starts: ConstantChunk::new(Column::StartClock),
            details: ConstantChunk::new(Column::Detail),
        })
    }

    /// Writes all columns of a group, in their order in the file.
    pub fn write<W: Write + Send>(
        &mut self,
        output: &mut SerializedRowGroupWriter<'_, W>,
        session: u32,
        group: &RowGroup,
    ) -> Result<()> {
        let (rows, properties) = (group.rows(), &self.properties);
        self.sessions.append(output, properties, (session, rows), |column| {
            write::<Int32Type>(column, &vec![session as i32; rows], None)
        })?;
        self.pages.group(rows)?;
        self.pages.clocks(output, &group.clocks)?;
        if group.is_plain() {
            self.kinds.append(output, properties, ((), rows), |column| {
                write::<ByteArrayType>(column, &vec![ByteArray::from("access"); rows], None)
            })?;
            self.pages.directions(output, &group.is_write)?;
            self.pages.addresses(output, &group.addresses)?;
        } else {
            column::<ByteArrayType, W>(output, &group.kinds(), None)?;
            column::<BoolType, W>(output, &group.is_write, Some(&group.direction_levels()))?;
            column::<Int64Type, W>(output, &group.addresses, Some(&group.address_levels()))?;
        }
        self.others(output, group)
    }

    /// Writes the columns that accesses do not have.
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
