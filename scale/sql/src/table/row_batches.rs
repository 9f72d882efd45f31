//! Builds batches of rows from the decoded items of a capture.
//!
//! Accesses of each board are collected as columns, and rows of other tables one by one. Only the
//! columns that a query needs are built.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringViewArray, StringViewBuilder, TimestampMillisecondArray,
};
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use hmtt::analysis::PAGE_LOG2;
use hmtt::decode::Accesses;
use hmtt_dataset::{Hour, Kind, RowSink, Table, Value};

use super::access_filter::AccessFilter;
use super::pruning::{PartitionFilter, Place, hour_number};

/// The rows and columns that are collected from a capture.
pub struct Wanted {
    /// The table.
    pub table: Table,
    /// The columns that are needed, in order.
    pub schema: SchemaRef,
    /// Conditions on partitions.
    pub partitions: PartitionFilter,
    /// Conditions on accesses.
    pub accesses: AccessFilter,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Name of the run.
    pub run: String,
    /// Hash of the capture, as text, if the column is needed.
    pub capture: String,
}

/// Accesses that have the same board, hour and session.
#[derive(Default)]
struct Collected {
    hour: Option<Hour>,
    session: i64,
    clocks: Vec<i64>,
    arrivals: Vec<i64>,
    addresses: Vec<i64>,
    writes: Vec<bool>,
    count: usize,
}

/// Collects rows, and passes on batches.
pub struct RowBatches<T> {
    wanted: Wanted,
    needs: Needs,
    boards: HashMap<String, Collected>,
    rows: Vec<(Place, Vec<Value>)>,
    kept: HashMap<(String, Hour), bool>,
    to: T,
    /// Why the collection has ended: an error, or `Ok` if no more rows are needed. `None` while
    /// more rows are needed.
    end: Option<Result<()>>,
}

/// Which columns of accesses are needed.
struct Needs {
    clocks: bool,
    arrivals: bool,
    addresses: bool,
    writes: bool,
}

impl<T: FnMut(Result<RecordBatch>) -> bool> RowBatches<T> {
    /// Starts without rows. `to` takes each batch, and returns whether more batches are needed.
    pub fn new(wanted: Wanted, to: T) -> Self {
        let has = |name: &str| wanted.schema.column_with_name(name).is_some();
        let needs = Needs {
            clocks: has("clock"),
            arrivals: has("arrival"),
            addresses: has("address") || has("page"),
            writes: has("is_write"),
        };
        let (boards, rows, kept) = Default::default();
        RowBatches { wanted, needs, boards, rows, kept, to, end: None }
    }

    /// Whether no more rows are needed.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Passes on the remaining rows.
    pub fn finish(mut self) -> Result<()> {
        for (board, mut collected) in std::mem::take(&mut self.boards) {
            self.pass_accesses(&board, &mut collected);
        }
        self.pass_rows();
        self.end.unwrap_or(Ok(()))
    }

    fn pass(&mut self, batch: Result<RecordBatch, ArrowError>) {
        if self.end.is_some() {
            return;
        }
        match batch {
            Ok(batch) => {
                if !(self.to)(Ok(batch)) {
                    self.end = Some(Ok(()));
                }
            }
            Err(error) => self.end = Some(Err(error.into())),
        }
    }

    /// Whether a partition can have rows of the result.
    fn keeps(&mut self, board: &str, hour: Hour) -> bool {
        if let Some(keeps) = self.kept.get(&(board.to_owned(), hour)) {
            return *keeps;
        }
        let place = Place { run: self.wanted.run.clone(), board: board.to_owned(), hour };
        match self.wanted.partitions.keeps(&[place]) {
            Ok(keeps) => {
                let keeps = keeps.first().copied().unwrap_or(true);
                self.kept.insert((board.to_owned(), hour), keeps);
                keeps
            }
            Err(error) => {
                self.end = Some(Err(error));
                false
            }
        }
    }

    fn pass_accesses(&mut self, board: &str, collected: &mut Collected) {
        let Some(hour) = collected.hour else { return };
        if collected.count == 0 {
            return;
        }
        let rows = collected.count;
        let Collected { clocks, arrivals, addresses, writes, session, .. } = collected;
        let build = |field: &Arc<Field>| -> ArrayRef {
            match field.name().as_str() {
                "session" => Arc::new(Int64Array::from_value(*session, rows)),
                "clock" => Arc::new(Int64Array::from(std::mem::take(clocks))),
                "arrival" => Arc::new(times(std::mem::take(arrivals))),
                "is_write" => Arc::new(BooleanArray::from(std::mem::take(writes))),
                "address" => Arc::new(Int64Array::from_iter_values(addresses.iter().copied())),
                "page" => {
                    let pages = addresses.iter().map(|address| address >> PAGE_LOG2);
                    Arc::new(Int64Array::from_iter_values(pages))
                }
                "hour" => Arc::new(Int64Array::from_value(hour_number(hour), rows)),
                "run" => texts(&self.wanted.run, rows),
                "board" => texts(board, rows),
                _ => texts(&self.wanted.capture, rows),
            }
        };
        let columns = self.wanted.schema.fields().iter().map(build).collect();
        let batch = batch(&self.wanted.schema, columns, rows);
        *collected = Collected { hour: Some(hour), session: *session, ..Collected::default() };
        self.pass(batch);
    }

    fn pass_rows(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return;
        }
        let build = |field: &Arc<Field>| match field.name().as_str() {
            "run" => column(Kind::Text, rows.iter().map(|(place, _)| text(&place.run))),
            "board" => column(Kind::Text, rows.iter().map(|(place, _)| text(&place.board))),
            "hour" => {
                let hours = rows.iter().map(|(place, _)| Value::Number(hour_number(place.hour)));
                column(Kind::Number, hours)
            }
            name => {
                let columns = self.wanted.table.columns();
                let place = columns.iter().position(|column| column.name == name);
                let kind = place.map_or(Kind::Text, |place| columns[place].kind);
                let value = |row: &Vec<Value>| {
                    place.and_then(|place| row.get(place).cloned()).unwrap_or(Value::Absent)
                };
                column(kind, rows.iter().map(|(_, row)| value(row)))
            }
        };
        let columns = self.wanted.schema.fields().iter().map(build).collect();
        let batch = batch(&self.wanted.schema, columns, rows.len());
        self.pass(batch);
    }
}

impl<T: FnMut(Result<RecordBatch>) -> bool> RowSink for RowBatches<T> {
    fn accesses(&mut self, board: &str, session: i64, arrival: Duration, accesses: Accesses<'_>) {
        let (hour, time) = (Hour::of(arrival), milliseconds(arrival));
        let filter = self.wanted.accesses;
        let is_wanted = self.wanted.table == Table::Accesses && self.end.is_none();
        if !is_wanted || !filter.has_frame(session, time) || !self.keeps(board, hour) {
            return;
        }
        if let Some(clock) = accesses.clocks.iter().find(|clock| **clock > i64::MAX as u64) {
            let error = hmtt_dataset::DatasetError::Clock(*clock);
            self.end = Some(Err(DataFusionError::External(error.into())));
            return;
        }
        let mut collected = self.boards.remove(board).unwrap_or_default();
        if collected.hour != Some(hour) || collected.session != session {
            self.pass_accesses(board, &mut collected);
            (collected.hour, collected.session) = (Some(hour), session);
        }
        collected.add(&self.needs, &filter, time, accesses);
        if collected.count >= self.wanted.batch_rows {
            self.pass_accesses(board, &mut collected);
        }
        self.boards.insert(board.to_owned(), collected);
    }

    fn row(&mut self, board: &str, arrival: Duration, table: Table, row: Vec<Value>) {
        let hour = Hour::of(arrival);
        if table != self.wanted.table || self.end.is_some() || !self.keeps(board, hour) {
            return;
        }
        let place = Place { run: self.wanted.run.clone(), board: board.to_owned(), hour };
        self.rows.push((place, row));
        if self.rows.len() >= self.wanted.batch_rows {
            self.pass_rows();
        }
    }
}

impl Collected {
    fn add(&mut self, needs: &Needs, filter: &AccessFilter, time: i64, accesses: Accesses<'_>) {
        let before = self.count;
        let Accesses { clocks, addresses, writes } = accesses;
        if filter.is_of_frames() {
            self.count += clocks.len();
            if needs.clocks {
                self.clocks.extend(clocks.iter().map(|clock| *clock as i64));
            }
            if needs.addresses {
                self.addresses.extend(addresses.iter().map(|address| *address as i64));
            }
            if needs.writes {
                self.writes.extend_from_slice(writes);
            }
        } else {
            for ((clock, address), is_write) in clocks.iter().zip(addresses).zip(writes) {
                let (clock, address) = (*clock as i64, *address as i64);
                if filter.has(clock, address, *is_write) {
                    self.count += 1;
                    self.clocks.extend(needs.clocks.then_some(clock));
                    self.addresses.extend(needs.addresses.then_some(address));
                    self.writes.extend(needs.writes.then_some(*is_write));
                }
            }
        }
        if needs.arrivals {
            self.arrivals.resize(self.arrivals.len() + self.count - before, time);
        }
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn times(values: impl Into<TimestampMillisecondArray>) -> TimestampMillisecondArray {
    values.into().with_timezone("UTC")
}

/// An array with the same text in each row.
fn texts(text: &str, rows: usize) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(rows).with_deduplicate_strings();
    (0..rows).for_each(|_| builder.append_value(text));
    Arc::new(builder.finish())
}

fn text(text: &str) -> Value {
    Value::from(text)
}

/// An array of values of a kind.
fn column(kind: Kind, values: impl Iterator<Item = Value>) -> ArrayRef {
    let number = |value| if let Value::Number(number) = value { Some(number) } else { None };
    match kind {
        Kind::Number => Arc::new(Int64Array::from_iter(values.map(number))),
        Kind::Time => {
            let array = TimestampMillisecondArray::from_iter(values.map(number));
            Arc::new(times(array))
        }
        Kind::Real => Arc::new(Float64Array::from_iter(
            values.map(|value| if let Value::Real(real) = value { Some(real) } else { None }),
        )),
        Kind::Flag => Arc::new(BooleanArray::from_iter(
            values.map(|value| if let Value::Flag(flag) = value { Some(flag) } else { None }),
        )),
        Kind::Text => Arc::new(StringViewArray::from_iter(values.map(|value| match value {
            Value::Text(text) => Some(String::from_utf8_lossy(text.data()).into_owned()),
            _ => None,
        }))),
    }
}

fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> std::result::Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}
