//! Reads the rows of one table in a piece, one row group at a time.

use std::ops::Range;
use std::path::Path;

use hmtt::analysis::{FrequencySlice, PageRun};
use parquet::data_type::ByteArray;

use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::reader::{GroupReader, PartReader};
use crate::schema::Table;

/// The rows of one table in a piece.
pub struct TableRows<'p> {
    table: Table,
    /// Whether the piece has gaps. Only gaps need arrivals, so otherwise arrivals are not read.
    has_gaps: bool,
    parts: std::vec::IntoIter<&'p Path>,
    /// The open part, and the number of its next row group.
    part: Option<(PartReader, usize)>,
    columns: Columns,
    /// Index of the next row in the row group.
    row: usize,
    /// Index of the next row's session in [`Columns::sessions`].
    session: usize,
}

/// The columns of a row group.
#[derive(Default)]
pub struct Columns {
    pub clocks: Vec<u64>,
    /// Arrivals; empty if the piece has no gaps.
    arrivals: Vec<i64>,
    pub values: RowValues,
    /// Runs of consecutive rows of one session: capture, session number, range of rows.
    sessions: Vec<(ByteArray, i64, Range<usize>)>,
}

/// The values of the rows, by table.
pub enum RowValues {
    Accesses {
        addresses: Vec<u64>,
        writes: Vec<bool>,
    },
    /// Page runs. Their `burst_bytes` are filled in later.
    Pages(Vec<PageRun>),
    /// Slices whose accesses are in no other row. Their `burst_bytes` are filled in later.
    Slices(Vec<FrequencySlice>),
}

impl Default for RowValues {
    fn default() -> Self {
        RowValues::Pages(Vec::new())
    }
}

impl<'p> TableRows<'p> {
    /// Starts before the first row. `parts`: paths of the parts, ordered by time. `has_gaps`:
    /// whether arrivals are needed.
    pub fn new(table: Table, parts: Vec<&'p Path>, has_gaps: bool) -> Self {
        let (parts, columns) = (parts.into_iter(), Columns::default());
        TableRows { table, has_gaps, parts, part: None, columns, row: 0, session: 0 }
    }

    /// Reads row groups until a row is loaded, or there are no more. `is_wanted`: called before
    /// each row group. Returns false if `is_wanted` has returned false.
    ///
    /// # Errors
    /// A part cannot be read.
    pub fn load(
        &mut self,
        set: &DataFolder,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<bool, DatasetError> {
        while self.session().is_none() {
            let Some((part, group)) = &mut self.part else {
                let Some(path) = self.parts.next() else { return Ok(true) };
                self.part = Some((PartReader::open(set, path, self.table)?, 0));
                continue;
            };
            if *group == part.group_count() {
                self.part = None;
                continue;
            }
            if !is_wanted() {
                return Ok(false);
            }
            self.columns = Columns::read(self.table, &mut part.group(*group)?, self.has_gaps)?;
            (*group, self.row, self.session) = (*group + 1, 0, 0);
        }
        Ok(true)
    }

    /// The columns of the loaded row group.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Capture and session of the next row; `None` if no row is loaded.
    pub fn session(&self) -> Option<(&[u8], i64)> {
        let (capture, session, _) = self.columns.sessions.get(self.session)?;
        Some((capture.data(), *session))
    }

    /// Clock of the next row.
    pub fn clock(&self) -> u64 {
        self.columns.clocks.get(self.row).copied().unwrap_or(0)
    }

    /// The range from the next row to the last row of its session whose clock is at most `clock`.
    /// The next row itself is always in the range.
    pub fn rows_up_to(&self, clock: Option<u64>) -> Range<usize> {
        let end = self.columns.sessions.get(self.session).map_or(self.row, |of| of.2.end);
        let is_later = |row: &usize| clock.is_some_and(|clock| self.columns.clocks[*row] > clock);
        let first_later = clock.and_then(|_| (self.row + 1..end).find(is_later));
        self.row..first_later.unwrap_or(end)
    }

    /// Makes `row` the next row.
    pub fn go_to(&mut self, row: usize) {
        self.row = row;
        if self.columns.sessions.get(self.session).is_some_and(|(.., rows)| rows.end <= row) {
            self.session += 1;
        }
    }
}

impl Columns {
    fn read(
        table: Table,
        group: &mut GroupReader<'_>,
        has_gaps: bool,
    ) -> Result<Self, DatasetError> {
        let sessions = group.sessions()?;
        let clocks = counts(group, "clock")?;
        let arrivals = if has_gaps { group.numbers("arrival")? } else { Vec::new() };
        let arrivals = arrivals.into_iter().map(|arrival| arrival.unwrap_or(0)).collect();
        let values = match table {
            Table::Pages => RowValues::Pages(page_runs(group, &clocks)?),
            Table::Slices => RowValues::Slices(slices(group, &clocks)?),
            _ => RowValues::Accesses {
                addresses: group.numbers("address")?.into_iter().map(address).collect(),
                writes: flags(group, "is_write")?,
            },
        };
        let mut columns = Columns { clocks, arrivals, values, sessions };
        if table == Table::Slices {
            let is_in_other_rows = flags(group, "in_other_rows")?;
            columns.retain(|row| !is_in_other_rows[row]);
        }
        Ok(columns)
    }

    /// Keeps only the slices for which `is_kept` returns true. `is_kept` receives the index of the
    /// row.
    fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut end = 0;
        for (.., rows) in &mut self.sessions {
            let begin = end;
            end += rows.clone().filter(|row| is_kept(*row)).count();
            *rows = begin..end;
        }
        self.sessions.retain(|(.., rows)| !rows.is_empty());
        retain(&mut self.clocks, &is_kept);
        retain(&mut self.arrivals, &is_kept);
        if let RowValues::Slices(slices) = &mut self.values {
            retain(slices, &is_kept);
        }
    }

    /// Clock and arrival of a row.
    pub fn time(&self, row: usize) -> (u64, i64) {
        (self.clocks[row], self.arrivals.get(row).copied().unwrap_or(0))
    }

    /// Number of accesses that the rows represent.
    pub fn accesses(&self, rows: Range<usize>) -> u64 {
        let add = u64::saturating_add;
        match &self.values {
            RowValues::Accesses { .. } => rows.len() as u64,
            RowValues::Pages(runs) => runs[rows].iter().map(PageRun::accesses).fold(0, add),
            RowValues::Slices(slices) => {
                slices[rows].iter().map(FrequencySlice::accesses).fold(0, add)
            }
        }
    }
}

/// Keeps only the values for whose index `is_kept` returns true.
fn retain<T>(values: &mut Vec<T>, is_kept: &impl Fn(usize) -> bool) {
    let mut row = 0;
    values.retain(|_| {
        row += 1;
        is_kept(row - 1)
    });
}

fn page_runs(group: &mut GroupReader<'_>, clocks: &[u64]) -> Result<Vec<PageRun>, DatasetError> {
    let addresses = group.numbers("address")?;
    let (reads, writes) = (counts(group, "reads")?, counts(group, "writes")?);
    let durations = counts(group, "duration_clocks")?;
    let run = |row: usize| PageRun {
        clock: clocks[row],
        duration_clocks: durations[row],
        address: address(addresses[row]),
        reads: reads[row],
        writes: writes[row],
        burst_bytes: None,
    };
    Ok((0..clocks.len()).map(run).collect())
}

fn slices(
    group: &mut GroupReader<'_>,
    clocks: &[u64],
) -> Result<Vec<FrequencySlice>, DatasetError> {
    let lengths = group.numbers("duration_clocks")?;
    let (reads, writes) = (counts(group, "reads")?, counts(group, "writes")?);
    let partial = flags(group, "partial")?;
    let slice = |row: usize| FrequencySlice {
        clock: clocks[row],
        length_clocks: lengths[row].map(|length| length.max(0) as u64),
        is_partial: partial[row],
        reads: reads[row],
        writes: writes[row],
        burst_bytes: None,
    };
    Ok((0..clocks.len()).map(slice).collect())
}

/// Converts a value of an address column, which stores all 64 bits as a signed number.
fn address(value: Option<i64>) -> u64 {
    value.unwrap_or(0) as u64
}

/// Reads a column of counts or clocks. Absent values become 0.
fn counts(group: &mut GroupReader<'_>, name: &str) -> Result<Vec<u64>, DatasetError> {
    let values = group.numbers(name)?.into_iter();
    Ok(values.map(|value| value.unwrap_or(0).max(0) as u64).collect())
}

fn flags(group: &mut GroupReader<'_>, name: &str) -> Result<Vec<bool>, DatasetError> {
    let values = group.flags(name)?.into_iter();
    Ok(values.map(|value| value.unwrap_or(false)).collect())
}
