//! Encodes columns with the same value in every row. The encoded bytes are kept and reused for the
//! next row groups, because nearly every group of a trace has only one session and one kind.

use ::parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterPropertiesPtr;
use ::parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;
use std::io::Write;

/// Encodes chunks of one column, and keeps the last one with its value and number of rows.
pub struct ConstantChunk<V> {
    descriptor: ColumnDescPtr,
    made: Option<(V, usize, Bytes, ColumnCloseResult)>,
}

impl<V: PartialEq + Clone> ConstantChunk<V> {
    /// Starts without a chunk. `descriptor`: name and type of the column.
    pub fn new(descriptor: ColumnDescPtr) -> Self {
        ConstantChunk { descriptor, made: None }
    }

    /// Adds the column to a row group, with `value` in all of its `rows` rows. If the kept chunk
    /// has another value or number of rows, `write` encodes the column.
    ///
    /// # Errors
    /// The values cannot be encoded, or the group cannot be written.
    pub fn append<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        properties: &WriterPropertiesPtr,
        (value, rows): (V, usize),
        write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some((last_value, count, bytes, result)) = &self.made
            && (last_value, *count) == (&value, rows)
        {
            return group.append_column(bytes, result.clone());
        }
        let mut buffer = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut buffer));
        let mut column = get_column_writer(self.descriptor.clone(), properties.clone(), pages);
        write(&mut column)?;
        let result = column.close()?;
        let bytes = Bytes::from(buffer.into_inner()?);
        let (_, _, bytes, result) = self.made.insert((value, rows, bytes, result));
        group.append_column(bytes, result.clone())
    }
}
