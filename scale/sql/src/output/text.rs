//! Writes rows as a table for people: numbers to the right, texts to the left.
//!
//! The first rows are kept until they have determined the widths of the columns. In later rows a
//! longer value shifts the values after it. So memory is bounded.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hmtt_format::escape;

use super::OutputError;

/// Number of rows that determine the widths.
const FIRST_ROWS: usize = 1000;

/// A writer of tables.
pub struct TextWriter<W: Write> {
    schema: SchemaRef,
    output: W,
    waiting: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl<W: Write> TextWriter<W> {
    /// Starts a table.
    pub fn new(schema: SchemaRef, output: W) -> Self {
        TextWriter { schema, output, waiting: Vec::new(), widths: None }
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), OutputError> {
        let options = FormatOptions::new()
            .with_timestamp_tz_format(Some("%Y-%m-%dT%H:%M:%S%.3fZ"))
            .with_null("");
        let columns: Result<Vec<ArrayFormatter<'_>>, ArrowError> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect();
        let columns = columns?;
        for row in 0..batch.num_rows() {
            let mut cells = Vec::with_capacity(columns.len());
            for column in &columns {
                let value = column.value(row).try_to_string()?;
                cells.push(escape::message(&value).to_string());
            }
            if let Some(last) = columns.last() {
                // A plan has several lines.
                let value = last.value(row).try_to_string()?;
                let lines = value.trim_end().lines().map(|line| escape::message(line).to_string());
                let lines: Vec<String> = lines.collect();
                cells.pop();
                cells.push(lines.join("\n"));
            }
            match &self.widths {
                Some(widths) => line(&mut self.output, &self.schema, widths, &cells)?,
                None => self.waiting.push(cells),
            }
            if self.widths.is_none() && self.waiting.len() >= FIRST_ROWS {
                self.begin()?;
            }
        }
        Ok(())
    }

    /// Ends the table.
    pub fn finish(mut self) -> io::Result<()> {
        if self.widths.is_none() {
            self.begin()?;
        }
        self.output.flush()
    }

    /// Writes the names and the kept rows.
    fn begin(&mut self) -> io::Result<()> {
        let names: Vec<String> = self.schema.fields().iter().map(name).collect();
        let mut widths = vec![0; names.len()];
        for cells in [&names].into_iter().chain(&self.waiting) {
            for (width, cell) in widths.iter_mut().zip(cells) {
                let lines = cell.lines().map(|line| line.chars().count());
                *width = (*width).max(lines.max().unwrap_or(0));
            }
        }
        for cells in [&names].into_iter().chain(&self.waiting) {
            line(&mut self.output, &self.schema, &widths, cells)?;
        }
        self.waiting.clear();
        self.widths = Some(widths);
        Ok(())
    }
}

fn name(field: &Arc<Field>) -> String {
    escape::message(field.name()).to_string()
}

fn line(
    output: &mut impl Write,
    schema: &SchemaRef,
    widths: &[usize],
    cells: &[String],
) -> io::Result<()> {
    let mut text = String::new();
    let mut begin = 0;
    for (place, ((field, width), cell)) in schema.fields().iter().zip(widths).zip(cells).enumerate()
    {
        if place > 0 {
            text.push_str("  ");
            begin += 2;
        }
        let space = " ".repeat(width.saturating_sub(cell.chars().count()));
        if field.data_type().is_numeric() {
            text.push_str(&space);
            text.push_str(cell);
        } else {
            text.push_str(&cell.replace('\n', &format!("\n{}", " ".repeat(begin))));
            text.push_str(&space);
        }
        begin += width;
    }
    writeln!(output, "{}", text.trim_end())
}
