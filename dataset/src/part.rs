//! Writes a part: a Parquet file with rows of one table.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use hmtt::table::parquet::Encodings;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::accesses::{AccessWriter, Group};
use crate::error::DatasetError;
use crate::rows::{Rows, Value};
use crate::schema::{ENCODINGS, Table};

/// Version of the tables' definitions, which each part states.
const DATASET_VERSION: &str = "1";
/// Bytes that are collected before they are written to the file.
const BUFFER_BYTES: usize = 1 << 20;
/// Columns by which accesses are sorted in each row group. Rows of other tables keep the order of
/// the trace.
const SORTED_BY: [&str; 3] = ["capture", "session", "clock"];

/// Order of the rows in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Accesses are sorted by capture, session and clock in each row group.
    Sorted,
    /// Rows keep the order of their traces. A row group may have rows of several captures, one
    /// after another.
    Trace,
}

/// A part that is being written.
pub struct PartWriter {
    path: PathBuf,
    file: SerializedFileWriter<BufWriter<File>>,
    rows: Rows,
    written: u64,
}

impl PartWriter {
    /// Starts a part in an empty file. `path`: path of the file, for messages.
    pub fn new(
        path: PathBuf,
        file: File,
        table: Table,
        order: Order,
        encodings: Encodings,
    ) -> Result<Self, DatasetError> {
        let output = BufWriter::with_capacity(BUFFER_BYTES, file);
        let schema = table.schema().root_schema_ptr();
        let file = SerializedFileWriter::new(output, schema, properties(table, order, encodings))?;
        Ok(PartWriter { path, file, rows: Rows::new(table), written: 0 })
    }

    /// Adds a row.
    pub fn row(&mut self, row: impl IntoIterator<Item = Value>) -> Result<(), DatasetError> {
        self.rows.push(row)?;
        if self.rows.is_full() { self.write_rows() } else { Ok(()) }
    }

    /// Adds accesses.
    pub fn accesses(
        &mut self,
        writer: &mut AccessWriter,
        group: &Group<'_>,
    ) -> Result<(), DatasetError> {
        self.written += group.clocks.len() as u64;
        Ok(writer.write(&mut self.file, group)?)
    }

    /// Number of rows that were added.
    pub fn row_count(&self) -> u64 {
        self.written + self.rows.count() as u64
    }

    /// Completes the file and makes it durable.
    pub fn finish(mut self) -> Result<(), DatasetError> {
        self.write_rows()?;
        let version = Some(DATASET_VERSION.to_owned());
        self.file
            .append_key_value_metadata(KeyValue::new("hmtt.dataset_version".to_owned(), version));
        self.file.finish()?;
        let failed = |error| DatasetError::file("write", &self.path, error);
        let output = self.file.inner_mut();
        output.flush().map_err(failed)?;
        output.get_ref().sync_all().map_err(failed)
    }

    fn write_rows(&mut self) -> Result<(), DatasetError> {
        self.written += self.rows.count() as u64;
        Ok(self.rows.write(&mut self.file)?)
    }
}

/// Encoding and compression of a table's columns, as properties of the Parquet writer.
pub fn properties(table: Table, order: Order, encodings: Encodings) -> WriterPropertiesPtr {
    let sorted = SORTED_BY.iter().filter_map(|name| table.index(name)).map(|index| SortingColumn {
        column_idx: index as i32,
        descending: false,
        nulls_first: false,
    });
    let sorted = (table == Table::Accesses && order == Order::Sorted).then(|| sorted.collect());
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("hmtt version ", env!("CARGO_PKG_VERSION")).into())
        .set_writer_version(encodings.writer_version())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_sorting_columns(sorted);
    for (name, smallest) in ENCODINGS {
        let encoding = encodings.of_column(smallest);
        let column = ColumnPath::from(name);
        builder = builder.set_column_dictionary_enabled(column.clone(), false);
        builder = builder.set_column_encoding(column, encoding);
    }
    for column in table.columns().iter().filter(|column| column.has_filter) {
        builder = builder.set_column_bloom_filter_enabled(ColumnPath::from(column.name), true);
    }
    builder.build().into()
}
