//! Reads accesses of programs from a Parquet file, one row group after the other.

use std::fs::File;
use std::rc::Rc;

use ::parquet::basic::Type as Physical;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use hmtt_files::access_trace::Made;
use hmtt_format::Direction;

use crate::access_trace::table::reader::{Row, Rows};
use crate::table::TableError;
use crate::table::parquet::{CheckedFile, Values, catch_panic, open};

/// Longest accepted name, in bytes. A dictionary contains a long text once, but every row can refer
/// to this text.
const MOST_NAME_BYTES: usize = 1 << 16;

/// Whether a Parquet file is a table of the accesses of a program: it has a column `pc`, and no
/// column `clock`.
///
/// # Errors
/// [`TableError`]: the file cannot be read, or is no Parquet file.
pub fn is_of_program(file: &File) -> Result<bool, TableError> {
    let file = open(file.try_clone()?)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let has = |name: &str| schema.columns().iter().any(|column| column.path().string() == name);
    Ok(has("pc") && !has("clock"))
}

/// A reader of Parquet files that [`ParquetWriter`](super::ParquetWriter) wrote, or that have the
/// same columns in any order.
pub struct ParquetRows {
    file: SerializedFileReader<CheckedFile>,
    next_group: usize,
    group: Option<Columns>,
    row: u64,
}

impl ParquetRows {
    /// Opens a table: reads the file's metadata.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, or is no Parquet file.
    pub fn new(file: File) -> Result<Self, TableError> {
        Ok(ParquetRows { file: open(file)?, next_group: 0, group: None, row: 0 })
    }
}

impl Rows for ParquetRows {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        loop {
            if let Some(group) = &mut self.group {
                let row = self.row;
                if group.advance()? {
                    self.row += 1;
                    return group
                        .row()
                        .map(Some)
                        .map_err(|problem| TableError::Row { row, problem });
                }
                self.group = None;
            }
            if self.next_group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = catch_panic(|| self.file.get_row_group(self.next_group))?;
            self.group = Some(Columns::new(group.as_ref())?);
            self.next_group += 1;
        }
    }
}

/// The texts of a column. Adjacent rows often have the same text, so they share one allocation.
struct Names {
    values: Values<ByteArrayType>,
    last: Option<Rc<str>>,
}

impl Names {
    /// The texts of the column `name`. Without such a column, no row has a text.
    fn find(group: &dyn RowGroupReader, name: &str) -> Result<Self, TableError> {
        let values = Values::find(group, name, Physical::BYTE_ARRAY)?;
        Ok(Names { values: values.unwrap_or_else(Values::absent), last: None })
    }

    /// The text of the current row; `None` if the row has none. Fails for a text that is too long
    /// or no UTF-8.
    fn get(&mut self) -> Result<Option<Rc<str>>, String> {
        let Some(name) = self.values.get().map(ByteArray::data) else { return Ok(None) };
        if let Some(last) = self.last.as_ref().filter(|last| last.as_bytes() == name) {
            return Ok(Some(Rc::clone(last)));
        }
        if name.len() > MOST_NAME_BYTES {
            return Err(format!("a name of more than {MOST_NAME_BYTES} bytes"));
        }
        let name = std::str::from_utf8(name).map_err(|_| "a name that is not in UTF-8")?;
        Ok(self.last.insert(Rc::from(name)).clone().into())
    }
}

/// The readers of the columns of one row group.
struct Columns {
    thread: Values<Int32Type>,
    pc: Values<Int64Type>,
    is_write: Values<BoolType>,
    address: Values<Int64Type>,
    size: Values<Int32Type>,
    elements: Values<Int64Type>,
    downwards: Values<BoolType>,
    conditional: Values<BoolType>,
    represents: Values<Int32Type>,
    function: Names,
    object: Names,
}

/// The values of a column that every table of a program must have.
fn required<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
    physical: Physical,
) -> Result<Values<T>, TableError> {
    Values::find(group, name, physical)?.ok_or_else(|| {
        TableError::Schema(format!("no column {name}, which a table of a program's accesses has"))
    })
}

impl Columns {
    fn new(group: &dyn RowGroupReader) -> Result<Self, TableError> {
        Ok(Columns {
            thread: required(group, "thread", Physical::INT32)?,
            pc: required(group, "pc", Physical::INT64)?,
            is_write: required(group, "is_write", Physical::BOOLEAN)?,
            address: required(group, "address", Physical::INT64)?,
            size: required(group, "size_bytes", Physical::INT32)?,
            elements: required(group, "elements", Physical::INT64)?,
            downwards: required(group, "downwards", Physical::BOOLEAN)?,
            conditional: required(group, "conditional", Physical::BOOLEAN)?,
            represents: required(group, "represents", Physical::INT32)?,
            function: Names::find(group, "function")?,
            object: Names::find(group, "object")?,
        })
    }

    /// Advances all columns to the next row. Returns false at the end of the group, which is the
    /// end of the column `pc`.
    fn advance(&mut self) -> Result<bool, TableError> {
        let more = self.pc.advance()?;
        self.thread.advance()?;
        self.is_write.advance()?;
        self.address.advance()?;
        self.size.advance()?;
        self.elements.advance()?;
        self.downwards.advance()?;
        self.conditional.advance()?;
        self.represents.advance()?;
        self.function.values.advance()?;
        self.object.values.advance()?;
        Ok(more)
    }

    /// The current row. Fails if a required value is missing or too large.
    fn row(&mut self) -> Result<Row, String> {
        let lacks = |name: &str| format!("no {name}");
        let number = |value: Option<&i32>, name: &str| {
            value.map(|value| value.cast_unsigned()).ok_or_else(|| lacks(name))
        };
        let flag = |value: Option<&bool>, name: &str| value.copied().ok_or_else(|| lacks(name));
        let wide = |value: Option<&i64>, name: &str| {
            value.map(|value| value.cast_unsigned()).ok_or_else(|| lacks(name))
        };
        let represents = number(self.represents.get(), "represents")?;
        let access = Made {
            pc: wide(self.pc.get(), "pc")?,
            direction: Direction::from_bit(flag(self.is_write.get(), "is_write")?),
            address: self.address.get().map(|address| address.cast_unsigned()),
            size: number(self.size.get(), "size_bytes")?,
            represents: u16::try_from(represents).map_err(|_| "represents is beyond 16 bits")?,
            elements: wide(self.elements.get(), "elements")?,
            is_down: flag(self.downwards.get(), "downwards")?,
            conditional: flag(self.conditional.get(), "conditional")?,
        };
        let thread = number(self.thread.get(), "thread")?;
        Ok(Row { thread, made: access, function: self.function.get()?, object: self.object.get()? })
    }
}
