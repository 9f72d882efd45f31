//! Reads the columns of parts. A damaged part is an error.
//!
//! A few bytes in a Parquet file can state any number of equal rows, and a long text for each row.
//! So there are limits, which no real part reaches: for the rows of a row group, and for the bytes
//! of texts that are copied.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hmtt::table::TableError;
use hmtt::table::parquet::{CheckedFile, Values, catch_panic, open};
use hmtt_paths::reopen;
use parquet::bloom_filter::Sbbf;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::statistics::Statistics;

use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::rows::{MAX_ACCESSES, Value};
use crate::schema::{Column, Kind, Table};

/// Maximum length of a text that is copied, in bytes. Hashes and names of exits are shorter.
const MAX_TEXT_BYTES: usize = 256;
/// Maximum total length of the descriptions in one column of a row group, in bytes. One description
/// has about 2 KiB.
const MAX_LONG_TEXT_BYTES: usize = 256 << 20;

/// An open part.
pub struct PartReader {
    path: PathBuf,
    table: Table,
    file: SerializedFileReader<CheckedFile>,
    /// The same file, opened again to read Bloom filters.
    filters: File,
}

impl PartReader {
    /// Opens a part of a table. `part`: path of the part, relative to the data set.
    pub fn open(set: &DataFolder, part: &Path, table: Table) -> Result<Self, DatasetError> {
        let (path, file) = (set.path(part), set.part(part)?);
        let filters = reopen(&file).map_err(|error| DatasetError::file("open", &path, error))?;
        let file = open(file).map_err(|error| DatasetError::part(&path, error))?;
        Ok(PartReader { path, table, file, filters })
    }

    /// Size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.filters.metadata().map_or(0, |file| file.len())
    }

    /// Number of row groups.
    pub fn group_count(&self) -> usize {
        self.file.num_row_groups()
    }

    /// Number of rows in all row groups.
    pub fn row_count(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The least value in a column, according to the file's statistics; `None` without statistics.
    pub fn least(&self, name: &str) -> Option<i64> {
        let groups = self.file.metadata().row_groups().iter();
        let columns = groups.flat_map(|group| group.columns().iter());
        let named = columns.filter(|column| column.column_path().string() == name);
        let least = named.filter_map(|column| match column.statistics()? {
            Statistics::Int64(stated) => stated.min_opt().copied(),
            _ => None,
        });
        least.min()
    }

    /// Opens a row group.
    pub fn group(&self, number: usize) -> Result<GroupReader<'_>, DatasetError> {
        let group = catch_panic(|| self.file.get_row_group(number));
        let group = group.map_err(|error| DatasetError::part(&self.path, error))?;
        let rows = group.metadata().num_rows();
        if !(0..=MAX_ACCESSES as i64).contains(&rows) {
            let text =
                format!("row group {number} has {rows} rows; parts have at most {MAX_ACCESSES}");
            return Err(DatasetError::part(&self.path, TableError::Schema(text)));
        }
        Ok(GroupReader { part: self, group, number })
    }
}

/// A row group of an open part.
pub struct GroupReader<'a> {
    part: &'a PartReader,
    group: Box<dyn RowGroupReader + 'a>,
    number: usize,
}

impl GroupReader<'_> {
    /// Values of a column of numbers or times.
    pub fn numbers(&mut self, name: &str) -> Result<Vec<Option<i64>>, DatasetError> {
        self.read::<Int64Type, _>(name, |value| *value)
    }

    /// Values of a column of short texts.
    pub fn texts(&mut self, name: &str) -> Result<Vec<Option<String>>, DatasetError> {
        let texts = self.read::<ByteArrayType, _>(name, Clone::clone)?;
        if let Some(text) = texts.iter().flatten().find(|text| text.len() > MAX_TEXT_BYTES) {
            let text = format!("column {name} has a text of {} bytes", text.len());
            return Err(DatasetError::part(&self.part.path, TableError::Schema(text)));
        }
        let copy = |text: ByteArray| String::from_utf8_lossy(text.data()).into_owned();
        Ok(texts.into_iter().map(|text| text.map(copy)).collect())
    }

    /// Values of a column of long texts, such as descriptions. Only for tables with few rows.
    pub fn long_texts(&mut self, name: &str) -> Result<Vec<Option<String>>, DatasetError> {
        let texts = self.read::<ByteArrayType, _>(name, Clone::clone)?;
        let bytes: usize = texts.iter().flatten().map(ByteArray::len).sum();
        if bytes > MAX_LONG_TEXT_BYTES {
            let text = format!("column {name} has texts of {bytes} bytes");
            return Err(DatasetError::part(&self.part.path, TableError::Schema(text)));
        }
        let copy = |text: ByteArray| String::from_utf8_lossy(text.data()).into_owned();
        Ok(texts.into_iter().map(|text| text.map(copy)).collect())
    }

    /// Runs of consecutive rows of one session: capture, session number, range of rows.
    pub fn sessions(&mut self) -> Result<Vec<(ByteArray, i64, Range<usize>)>, DatasetError> {
        let captures = self.read::<ByteArrayType, _>("capture", Clone::clone)?;
        let numbers = self.numbers("session")?;
        let mut runs = Vec::new();
        let mut from = 0;
        while from < captures.len() {
            let is_same =
                |at: &usize| captures[*at] == captures[from] && numbers[*at] == numbers[from];
            let end = (from..captures.len()).find(|at| !is_same(at)).unwrap_or(captures.len());
            let capture = captures[from].clone().unwrap_or_default();
            runs.push((capture, numbers[from].unwrap_or(-1), from..end));
            from = end;
        }
        Ok(runs)
    }

    /// Values of a column of any type.
    pub fn values(&mut self, column: &Column) -> Result<Vec<Value>, DatasetError> {
        let name = column.name;
        fn present<T: Into<Value>>(values: Vec<Option<T>>) -> Vec<Value> {
            values.into_iter().map(Into::into).collect()
        }
        Ok(match column.kind {
            Kind::Number | Kind::Time => present(self.numbers(name)?),
            Kind::Real => present(self.read::<DoubleType, _>(name, |value| *value)?),
            Kind::Flag => present(self.flags(name)?),
            Kind::Text => present(self.read::<ByteArrayType, _>(name, Clone::clone)?),
        })
    }

    /// Values of a column of booleans.
    pub fn flags(&mut self, name: &str) -> Result<Vec<Option<bool>>, DatasetError> {
        self.read::<BoolType, _>(name, |value| *value)
    }

    fn read<T: DataType, V>(
        &mut self,
        name: &str,
        convert: impl Fn(&T::T) -> V,
    ) -> Result<Vec<Option<V>>, DatasetError> {
        let failed = |error| DatasetError::part(&self.part.path, error);
        let physical = T::get_physical_type();
        let column = Values::<T>::find(self.group.as_ref(), name, physical).map_err(failed)?;
        let table = self.part.table.name();
        let missing =
            || failed(TableError::Schema(format!("no column {name}, which {table} have")));
        let mut column = column.ok_or_else(missing)?;
        let mut values = Vec::new();
        let rows = self.group.metadata().num_rows();
        // A row more than stated is enough to detect an error, so reading stops there.
        while values.len() as i64 <= rows && column.advance().map_err(failed)? {
            values.push(column.get().map(&convert));
        }
        if values.len() as i64 == rows {
            Ok(values)
        } else {
            Err(failed(TableError::Schema(format!(
                "column {name} has {} values in {rows} rows",
                values.len()
            ))))
        }
    }

    /// Whether the bounds that the file states for a column of numbers are the bounds of `values`.
    pub fn has_bounds(&self, name: &str, values: &[Option<i64>]) -> bool {
        let stated = self.place(name).and_then(|place| {
            let metadata = self.group.metadata();
            match metadata.column(place).statistics() {
                Some(Statistics::Int64(stated)) => {
                    Some((stated.min_opt().copied(), stated.max_opt().copied()))
                }
                _ => None,
            }
        });
        let present = values.iter().flatten();
        stated == Some((present.clone().min().copied(), present.max().copied()))
    }

    /// Whether a column's Bloom filter contains all values. True if the column has no filter.
    pub fn filter_has(&self, name: &str, values: &[Option<i64>]) -> Result<bool, DatasetError> {
        let Some(place) = self.place(name) else { return Ok(false) };
        let path = &self.part.path;
        let file = &self.part.filters;
        let column = self.part.file.metadata().row_group(self.number).column(place);
        let filter = catch_panic(|| Sbbf::read_from_column_chunk(column, file));
        let filter = filter.map_err(|error| DatasetError::part(path, error))?;
        Ok(filter.is_none_or(|filter| values.iter().flatten().all(|value| filter.check(value))))
    }

    fn place(&self, name: &str) -> Option<usize> {
        let schema = self.group.metadata().schema_descr();
        schema.columns().iter().position(|column| column.name() == name)
    }
}
