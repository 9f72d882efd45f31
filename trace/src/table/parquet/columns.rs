//! Writes the columns of a row group to the file.

use std::io::Write;

use ::parquet::basic::Encoding;
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::properties::WriterPropertiesPtr;
use ::parquet::file::writer::SerializedRowGroupWriter;

use super::column_chunk::ConstantChunk;
use super::packed::{PackedChunks, PackedColumn};
use super::row_group::{ABSENT, RowGroup, Sparse};
use super::{COLUMNS, Column, Encodings, SCHEMA};

/// Compression level of a row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// As fast as level 1, and 4 % smaller on recorded traces. Level 3 and higher levels take at
    /// least 1.5 times as long.
    Quick = 2,
    /// A quarter smaller. At 2 MB/s it is too slow for a long trace, but takes only a quarter of a
    /// second for a short one.
    Hard = 19,
}

/// Maximum number of rows of a short trace.
const SHORT_ROWS: usize = 1 << 16;

/// A writer of the columns of row groups.
pub(super) struct Columns {
    properties: WriterPropertiesPtr,
    packed: PackedChunks,
    clocks: PackedColumn,
    directions: PackedColumn,
    addresses: PackedColumn,
    encodings: Encodings,
    /// Number of row groups started.
    groups: u64,
    sessions: ConstantChunk<u32>,
    kinds: ConstantChunk<()>,
    reads: ConstantChunk<()>,
    writes: ConstantChunk<()>,
    durations: ConstantChunk<()>,
    starts: ConstantChunk<()>,
    details: ConstantChunk<()>,
}

impl Columns {
    /// Creates a writer. `properties`: the library's settings for these encodings.
    pub fn new(properties: WriterPropertiesPtr, encodings: Encodings) -> Result<Self> {
        let packed = |column: Column| PackedColumn {
            descriptor: SCHEMA.column(column as usize),
            encoding: encodings.of_column(COLUMNS[column as usize].4),
            is_ascending: column == Column::Clock,
        };
        Ok(Columns {
            properties,
            packed: PackedChunks::new(Effort::Quick as i32, encodings)?,
            clocks: packed(Column::Clock),
            directions: packed(Column::IsWrite),
            addresses: packed(Column::Address),
            encodings,
            groups: 0,
            sessions: ConstantChunk::new(SCHEMA.column(Column::Session as usize)),
            kinds: ConstantChunk::new(SCHEMA.column(Column::Kind as usize)),
            reads: ConstantChunk::new(SCHEMA.column(Column::Reads as usize)),
            writes: ConstantChunk::new(SCHEMA.column(Column::Writes as usize)),
            durations: ConstantChunk::new(SCHEMA.column(Column::Duration as usize)),
            starts: ConstantChunk::new(SCHEMA.column(Column::StartClock as usize)),
            details: ConstantChunk::new(SCHEMA.column(Column::Detail as usize)),
        })
    }

    /// Chooses the compression level of a group of `rows` rows. A short first group counts as a
    /// whole short trace.
    fn start_group(&mut self, rows: usize) -> Result<()> {
        let is_short = self.groups == 0 && rows <= SHORT_ROWS;
        self.groups += 1;
        let effort = if is_short { Effort::Hard } else { Effort::Quick };
        // Split bytes compress faster. At a high level, whole addresses compress smaller.
        self.addresses.encoding = match effort {
            Effort::Quick => self.encodings.of_column(COLUMNS[Column::Address as usize].4),
            Effort::Hard => Encoding::PLAIN,
        };
        self.packed.set_level(effort as i32)
    }

    /// Writes all columns of a group, in their order in the file.
    pub fn write<W: Write + Send>(
        &mut self,
        output: &mut SerializedRowGroupWriter<'_, W>,
        session: u32,
        group: &RowGroup,
    ) -> Result<()> {
        let rows = group.rows();
        self.start_group(rows)?;
        let properties = &self.properties;
        self.sessions.append(output, properties, (session, rows), |column| {
            write::<Int32Type>(column, &vec![session as i32; rows], None)
        })?;
        self.packed.numbers(output, &self.clocks, &group.clocks, None)?;
        if group.is_plain() {
            self.kinds.append(output, properties, ((), rows), |column| {
                write::<ByteArrayType>(column, &vec![ByteArray::from("access"); rows], None)
            })?;
            self.packed.booleans(output, &self.directions, &group.is_write)?;
            self.packed.numbers(output, &self.addresses, &group.addresses, None)?;
        } else {
            column::<ByteArrayType, W>(output, &group.kinds(), None)?;
            column::<BoolType, W>(output, &group.is_write, Some(&group.direction_levels()))?;
            column::<Int64Type, W>(output, &group.addresses, Some(&group.address_levels()))?;
        }
        self.others(output, group)
    }

    /// Writes the columns for which accesses have no value.
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

/// Writes a column without a value in any row.
fn empty<T: DataType>(column: &mut ColumnWriter<'_>, rows: usize) -> Result<()> {
    write::<T>(column, &[], Some(&vec![ABSENT; rows]))
}

/// Writes an optional column.
fn sparse<T: DataType, W: Write + Send>(
    output: &mut SerializedRowGroupWriter<'_, W>,
    column_of: &Sparse<T>,
) -> Result<()> {
    column::<T, W>(output, &column_of.values, Some(&column_of.levels))
}

/// Writes the next column of the group. `levels`: its definition levels, if it is optional.
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
