//! Writes the rows of a query: as a table for people, CSV, JSON, JSON lines or Parquet.
//!
//! Addresses are printed in hexadecimal in all formats except Parquet, where they are numbers.

mod address_columns;
mod file;
mod text;

use std::borrow::Cow;
use std::io::Write;

use arrow::array::RecordBatch;
use arrow::csv::{Writer as CsvWriter, WriterBuilder};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::{ArrayWriter, LineDelimitedWriter, WriterBuilder as JsonBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use address_columns::AddressColumns;
pub use file::StagedFile;
use text::TextWriter;

/// A format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table whose cells are padded to the width of their column.
    Table,
    /// Comma-separated values with a header line.
    Csv,
    /// An array of objects.
    Json,
    /// A JSON object on each line.
    Jsonl,
    /// Parquet.
    Parquet,
}

/// The reason why rows could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
    /// A value cannot be written in this format.
    #[error("{0}")]
    Value(String),
}

impl From<ArrowError> for OutputError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => OutputError::Write(error),
            other => OutputError::Value(other.to_string()),
        }
    }
}

impl From<ParquetError> for OutputError {
    fn from(error: ParquetError) -> Self {
        OutputError::Value(error.to_string())
    }
}

enum Kind<W: Write + Send> {
    Table(TextWriter<W>),
    Csv(Box<CsvWriter<W>>),
    Json(ArrayWriter<W>),
    Jsonl(LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

/// A writer of rows.
pub struct RowWriter<W: Write + Send> {
    kind: Kind<W>,
    addresses: AddressColumns,
}

impl<W: Write + Send> RowWriter<W> {
    /// Starts the output. `addresses`: for each column, whether it contains addresses.
    ///
    /// # Errors
    /// The output cannot be written, or a column cannot be written in the format.
    pub fn new(
        format: Format,
        schema: SchemaRef,
        addresses: &[bool],
        output: W,
    ) -> Result<Self, OutputError> {
        let addresses = match format {
            Format::Parquet => AddressColumns::default(),
            _ => AddressColumns::new(&schema, addresses),
        };
        let kind = match format {
            Format::Table => Kind::Table(TextWriter::new(schema, output)),
            Format::Csv => {
                let mut writer = WriterBuilder::new().with_header(true).build(output);
                // Writes the names of the columns even if there are no rows.
                writer.write(&RecordBatch::new_empty(schema))?;
                Kind::Csv(Box::new(writer))
            }
            Format::Json => Kind::Json(JsonBuilder::new().with_explicit_nulls(true).build(output)),
            Format::Jsonl => {
                Kind::Jsonl(JsonBuilder::new().with_explicit_nulls(true).build(output))
            }
            Format::Parquet => {
                let level = Compression::ZSTD(ZstdLevel::default());
                let created = concat!("hmtt version ", env!("CARGO_PKG_VERSION"));
                let properties = WriterProperties::builder()
                    .set_compression(level)
                    .set_created_by(created.into())
                    .build();
                Kind::Parquet(Box::new(ArrowWriter::try_new(output, schema, Some(properties))?))
            }
        };
        Ok(RowWriter { kind, addresses })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// The output cannot be written, or a value cannot be written in the format.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), OutputError> {
        let batch: Cow<'_, RecordBatch> = self.addresses.with_digits(batch)?;
        let batch = &*batch;
        match &mut self.kind {
            Kind::Table(writer) => writer.write(batch)?,
            Kind::Csv(writer) => writer.write(batch)?,
            Kind::Json(writer) => writer.write(batch)?,
            Kind::Jsonl(writer) => writer.write(batch)?,
            Kind::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Ends the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> Result<(), OutputError> {
        match self.kind {
            Kind::Table(writer) => writer.finish()?,
            Kind::Csv(writer) => writer.into_inner().flush()?,
            Kind::Json(mut writer) => {
                writer.finish()?;
                let mut output = writer.into_inner();
                output.write_all(b"\n")?;
                output.flush()?;
            }
            Kind::Jsonl(mut writer) => {
                writer.finish()?;
                writer.into_inner().flush()?;
            }
            Kind::Parquet(writer) => writer.into_inner()?.flush()?,
        }
        Ok(())
    }
}
