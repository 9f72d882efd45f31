//! Opens Parquet files, and reads the values of their columns in batches. Damaged files cause
//! errors.

use std::fs::File;

use ::parquet::basic::Type as Physical;
use ::parquet::column::reader::{ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::DataType;
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescPtr;

use super::catch_panic::catch_panic;
use super::footer_check::check_footer;
use super::page_check::CheckedFile;
use super::page_expansion::StreamedChunks;
use crate::table::TableError;

/// Number of rows that are decoded at a time.
const BATCH_ROWS: usize = 1 << 14;

/// Opens a file, and checks and reads its metadata. Its pages are checked when they are read.
///
/// # Errors
/// [`TableError`]: the file cannot be read, is no Parquet file, or is damaged.
pub fn open(file: File) -> Result<SerializedFileReader<CheckedFile>, TableError> {
    let length = file.metadata()?.len();
    check_footer(&file, length)?;
    let (file, chunks) = CheckedFile::new(file);
    let file = catch_panic(|| SerializedFileReader::new(file))?;
    let groups = file.metadata().row_groups();
    groups.iter().try_for_each(|group| check_places(group, length))?;
    // From here on, each page is checked when it is read.
    let _ = chunks.set(StreamedChunks::of(groups)?);
    Ok(file)
}

/// The values of one column, decoded in batches.
pub struct Values<T: DataType> {
    /// Reader of the column; `None` if there is no such column.
    reader: Option<ColumnReaderImpl<T>>,
    is_optional: bool,
    values: Vec<T::T>,
    levels: Vec<i16>,
    next_row: usize,
    next_value: usize,
    rows: usize,
    /// Index in `values` of the current row's value, if it has one.
    current: Option<usize>,
}

impl<T: DataType> Values<T> {
    /// The values of the column `name` in a row group; `None` if there is no such column.
    /// `physical`: the type that the column must have.
    ///
    /// # Errors
    /// [`TableError`]: the column has another type, is nested, or is damaged.
    pub fn find(
        group: &dyn RowGroupReader,
        name: &str,
        physical: Physical,
    ) -> Result<Option<Self>, TableError> {
        let schema = group.metadata().schema_descr_ptr();
        let place = schema.columns().iter().position(|column| column.path().string() == name);
        let Some(place) = place else { return Ok(None) };
        let column = schema.column(place);
        check(&column, name, physical)?;
        let is_optional = column.max_def_level() == 1;
        let pages = catch_panic(|| group.get_column_page_reader(place))?;
        let reader = T::get_column_reader(get_column_reader(column, pages));
        Ok(Some(Values::over(reader, is_optional)))
    }

    /// A column without rows, in place of a column that a file does not have.
    pub fn absent() -> Self {
        Values::over(None, false)
    }

    fn over(reader: Option<ColumnReaderImpl<T>>, is_optional: bool) -> Self {
        Values {
            reader,
            is_optional,
            values: Vec::new(),
            levels: Vec::new(),
            next_row: 0,
            next_value: 0,
            rows: 0,
            current: None,
        }
    }

    /// Advances to the next row. Returns false at the end.
    ///
    /// # Errors
    /// [`TableError`]: the column is damaged.
    pub fn advance(&mut self) -> Result<bool, TableError> {
        if self.next_row == self.rows {
            let Some(reader) = &mut self.reader else { return Ok(false) };
            self.values.clear();
            self.levels.clear();
            let levels = self.is_optional.then_some(&mut self.levels);
            (self.rows, _, _) =
                catch_panic(|| reader.read_records(BATCH_ROWS, levels, None, &mut self.values))?;
            (self.next_row, self.next_value) = (0, 0);
            if self.rows == 0 {
                self.current = None;
                return Ok(false);
            }
        }
        let is_present = !self.is_optional || self.levels.get(self.next_row) == Some(&1);
        self.next_row += 1;
        self.current = is_present.then_some(self.next_value);
        self.next_value += usize::from(is_present);
        Ok(true)
    }

    /// The value of the current row, if it has one.
    pub fn get(&self) -> Option<&T::T> {
        self.values.get(self.current?)
    }
}

/// Checks that the columns of a row group are within the file, because the library does not check
/// this.
fn check_places(group: &RowGroupMetaData, length: u64) -> Result<(), TableError> {
    let is_within = |column: &ColumnChunkMetaData| {
        let first = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = first.checked_add(column.compressed_size());
        let end = end.and_then(|end| u64::try_from(end).ok());
        first >= 0 && column.compressed_size() >= 0 && end.is_some_and(|end| end <= length)
    };
    match group.columns().iter().find(|column| !is_within(column)) {
        None => Ok(()),
        Some(column) => Err(TableError::Schema(format!(
            "column {} lies outside the file: the file is damaged",
            column.column_path()
        ))),
    }
}

/// Checks the type of a column, and that each row has at most one value in it.
fn check(column: &ColumnDescPtr, name: &str, expected: Physical) -> Result<(), TableError> {
    let (physical, nested) = (column.physical_type(), column.max_rep_level() != 0);
    if physical != expected || nested || column.max_def_level() > 1 {
        return Err(TableError::Schema(format!(
            "column {name} is {physical}, a table of a trace has one {expected} in each row"
        )));
    }
    Ok(())
}
