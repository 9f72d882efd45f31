//! Writes and reads accesses of programs as a Parquet file.
//!
//! | column | type |
//! |---|---|
//! | `thread` | uint32 |
//! | `pc` | uint64 |
//! | `is_write` | boolean |
//! | `address` | uint64, optional |
//! | `size_bytes` | uint32 |
//! | `elements` | uint64 |
//! | `downwards`, `conditional` | boolean |
//! | `represents` | uint16 |
//! | `function`, `object` | string, optional |

mod reader;

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{
    Compression, IntType, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::{Type, TypePtr};
use hmtt_files::access_trace::Made;
use hmtt_format::Direction;

use super::{AccessWriter, Kept};
use crate::access_trace::Executed;
use crate::table::TableError;
use crate::table::parquet::Encodings;

pub use reader::{ParquetRows, is_of_program};

/// Maximum number of rows of a row group.
const GROUP_ROWS: usize = 1 << 18;

/// A column in which rows may lack a value.
struct Optional<T> {
    values: Vec<T>,
    /// Definition levels: 1 for each row that has a value, and 0 for others.
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Optional { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// The rows of the next row group, which are not written yet.
#[derive(Default)]
struct Columns {
    thread: Vec<i32>,
    pc: Vec<i64>,
    is_write: Vec<bool>,
    address: Optional<i64>,
    size: Vec<i32>,
    elements: Vec<i64>,
    downwards: Vec<bool>,
    conditional: Vec<bool>,
    represents: Vec<i32>,
    function: Optional<ByteArray>,
    object: Optional<ByteArray>,
}

/// A writer of Parquet: a row for each access.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Columns,
    names: Kept<[Option<ByteArray>; 2]>,
}

/// The schema of the file: the columns of the table above, in this order.
fn schema() -> Result<TypePtr, ParquetError> {
    let unsigned = |bits| Some(LogicalType::Integer(IntType { bit_width: bits, is_signed: false }));
    let text = || Some(LogicalType::String);
    let (required, optional) = (Repetition::REQUIRED, Repetition::OPTIONAL);
    let fields = [
        ("thread", Physical::INT32, unsigned(32), required),
        ("pc", Physical::INT64, unsigned(64), required),
        ("is_write", Physical::BOOLEAN, None, required),
        ("address", Physical::INT64, unsigned(64), optional),
        ("size_bytes", Physical::INT32, unsigned(32), required),
        ("elements", Physical::INT64, unsigned(64), required),
        ("downwards", Physical::BOOLEAN, None, required),
        ("conditional", Physical::BOOLEAN, None, required),
        ("represents", Physical::INT32, unsigned(16), required),
        ("function", Physical::BYTE_ARRAY, text(), optional),
        ("object", Physical::BYTE_ARRAY, text(), optional),
    ];
    let fields = fields.into_iter().map(|(name, physical, logical, repetition)| {
        let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        field.with_logical_type(logical).build().map(Arc::new)
    });
    let fields = fields.collect::<Result<_, _>>()?;
    Type::group_type_builder("hmtt").with_fields(fields).build().map(Arc::new)
}

/// Writes the next column of a row group. `levels`: the definition levels of an optional column.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()?;
    }
    Ok(())
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Starts a file with the encodings that every reader decodes.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    pub fn new(output: W) -> Result<Self, TableError> {
        ParquetWriter::with_encodings(output, Encodings::default())
    }

    /// Starts a file with these encodings.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    pub fn with_encodings(output: W, encodings: Encodings) -> Result<Self, TableError> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("hmtt version ", env!("CARGO_PKG_VERSION")).into())
            .set_writer_version(encodings.writer_version())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let file = SerializedFileWriter::new(output, schema()?, Arc::new(properties))?;
        let names = Kept { number: 0, text: [None, None] };
        Ok(ParquetWriter { file, columns: Columns::default(), names })
    }

    /// Writes the rows as a row group, and removes them from memory.
    fn write_group(&mut self) -> Result<(), ParquetError> {
        let Columns {
            thread,
            pc,
            is_write,
            address,
            size,
            elements,
            downwards,
            conditional,
            represents,
            function,
            object,
        } = &mut self.columns;
        let mut group = self.file.next_row_group()?;
        write::<Int32Type>(&mut group, thread, None)?;
        write::<Int64Type>(&mut group, pc, None)?;
        write::<BoolType>(&mut group, is_write, None)?;
        write::<Int64Type>(&mut group, &address.values, Some(&address.levels))?;
        write::<Int32Type>(&mut group, size, None)?;
        write::<Int64Type>(&mut group, elements, None)?;
        write::<BoolType>(&mut group, downwards, None)?;
        write::<BoolType>(&mut group, conditional, None)?;
        write::<Int32Type>(&mut group, represents, None)?;
        write::<ByteArrayType>(&mut group, &function.values, Some(&function.levels))?;
        write::<ByteArrayType>(&mut group, &object.values, Some(&object.levels))?;
        group.close()?;
        [thread, size, represents].into_iter().for_each(Vec::clear);
        address.clear();
        [pc, elements].into_iter().for_each(Vec::clear);
        [is_write, downwards, conditional].into_iter().for_each(Vec::clear);
        [function, object].into_iter().for_each(Optional::clear);
        Ok(())
    }
}

impl<W: Write + Send> AccessWriter for ParquetWriter<W> {
    fn access(&mut self, executed: &Executed<'_>, access: &Made) -> Result<(), TableError> {
        let bytes = |name: Option<&str>| name.map(ByteArray::from);
        let [function, object] = self.names.of(executed, |names| names.map(bytes));
        let columns = &mut self.columns;
        columns.thread.push(executed.thread.cast_signed());
        columns.pc.push(access.pc.cast_signed());
        columns.is_write.push(access.direction == Direction::Write);
        columns.address.push(access.address.map(u64::cast_signed));
        columns.size.push(access.size.cast_signed());
        columns.elements.push(access.elements.cast_signed());
        columns.downwards.push(access.is_down);
        columns.conditional.push(access.conditional);
        columns.represents.push(access.represents.into());
        columns.function.push(function.clone());
        columns.object.push(object.clone());
        if columns.thread.len() == GROUP_ROWS { Ok(self.write_group()?) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), TableError> {
        if !self.columns.thread.is_empty() {
            self.write_group()?;
        }
        self.file.close()?;
        Ok(())
    }
}
