//! Collects rows of a table by columns, and writes them as row groups.

use std::io::Write;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedFileWriter;

use crate::schema::{Kind, Table};

/// Maximum number of rows in a row group of accesses.
pub const MAX_ACCESSES: usize = 1 << 20;
/// Maximum number of rows in a row group of another table. The rows of such tables are fewer, and
/// need more memory.
const MAX_ROWS: usize = 1 << 17;
/// Parquet's definition level of a present value.
const PRESENT: i16 = 1;
/// Parquet's definition level of an absent value.
const ABSENT: i16 = 0;

/// The value of a column in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is no value.
    Absent,
    /// A whole number, or a time in milliseconds since the Unix epoch.
    Number(i64),
    /// A floating-point number.
    Real(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(ByteArray),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Real(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

impl From<ByteArray> for Value {
    fn from(text: ByteArray) -> Self {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Absent, Into::into)
    }
}

/// Converts a count, clock or address to a signed number. Numbers from 2^63 on become the largest
/// signed number; no card counts that far.
pub fn signed(number: impl Into<u64>) -> i64 {
    i64::try_from(number.into()).unwrap_or(i64::MAX)
}

/// Values of a column.
enum Values {
    Numbers(Vec<i64>),
    Reals(Vec<f64>),
    Flags(Vec<bool>),
    Texts(Vec<ByteArray>),
}

/// Values of a column. An optional column also has definition levels.
struct Cells {
    values: Values,
    levels: Option<Vec<i16>>,
}

/// Rows of a table that are not written yet.
pub struct Rows {
    columns: Vec<Cells>,
    count: usize,
    most: usize,
}

impl Rows {
    /// Creates a buffer without rows.
    pub fn new(table: Table) -> Self {
        let cells = |kind, is_required: bool| Cells {
            values: match kind {
                Kind::Number | Kind::Time => Values::Numbers(Vec::new()),
                Kind::Real => Values::Reals(Vec::new()),
                Kind::Flag => Values::Flags(Vec::new()),
                Kind::Text => Values::Texts(Vec::new()),
            },
            levels: (!is_required).then(Vec::new),
        };
        let columns = table.columns().iter();
        let columns = columns.map(|column| cells(column.kind, column.is_required)).collect();
        let most = if table == Table::Accesses { MAX_ACCESSES } else { MAX_ROWS };
        Rows { columns, count: 0, most }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the rows must be written before more are added.
    pub fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// Adds a row: the value of each column, in order.
    ///
    /// # Errors
    /// A value has another type than its column, a required value is absent, or there are too many
    /// values.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) -> Result<()> {
        let mut row = row.into_iter();
        for cells in &mut self.columns {
            cells.push(row.next().unwrap_or(Value::Absent))?;
        }
        self.count += 1;
        row.next().map_or(Ok(()), |_| Err(mismatch()))
    }

    /// Writes the rows as a row group, and removes them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for cells in &mut self.columns {
            let mut column = group.next_column()?.ok_or_else(mismatch)?;
            cells.write(column.untyped())?;
            column.close()?;
        }
        group.close()?;
        self.count = 0;
        Ok(())
    }
}

impl Cells {
    fn push(&mut self, value: Value) -> Result<()> {
        if let Some(levels) = &mut self.levels {
            levels.push(if value == Value::Absent { ABSENT } else { PRESENT });
        }
        match (&mut self.values, value) {
            (Values::Numbers(values), Value::Number(value)) => values.push(value),
            (Values::Reals(values), Value::Real(value)) => values.push(value),
            (Values::Flags(values), Value::Flag(value)) => values.push(value),
            (Values::Texts(values), Value::Text(value)) => values.push(value),
            (_, Value::Absent) if self.levels.is_some() => {}
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    fn write(&mut self, column: &mut ColumnWriter<'_>) -> Result<()> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Numbers(values) => write::<Int64Type>(column, values, levels),
            Values::Reals(values) => write::<DoubleType>(column, values, levels),
            Values::Flags(values) => write::<BoolType>(column, values, levels),
            Values::Texts(values) => write::<ByteArrayType>(column, values, levels),
        }?;
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

fn write<T: DataType>(
    column: &mut ColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<()> {
    let typed = T::get_column_writer_mut(column).ok_or_else(mismatch)?;
    typed.write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}

fn mismatch() -> ParquetError {
    ParquetError::General("a row does not have the columns of its table".into())
}
