//! Distributes the rows of a capture to parts: files for one table, board and hour.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use super::Origin;
use super::boards::Boards;
use super::sink::{CaptureSink, CardAccesses, DUE_ACCESSES, FrameAccesses};
use crate::accesses::{AccessWriter, Group, milliseconds};
use crate::error::DatasetError;
use crate::hour::Hour;
use crate::part::{Order, PartWriter, properties};
use crate::partition::Partition;
use crate::rows::Value;
use crate::schema::Table;
use crate::staging::Staging;

/// Number of rows after which a part is ended, so that its footer is not too long to be read
/// quickly.
const MAX_ROWS: u64 = 1 << 28;
/// Maximum number of parts of a capture. A capture that needs more has arrival times that jump from
/// hour to hour, and no receiver writes such times.
const MAX_PARTS: usize = 1 << 13;

/// A part in the staging folder, which is complete and not yet published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPart {
    /// Name of the file in the staging folder.
    pub staged: String,
    /// Partition in which the part is published.
    pub partition: Partition,
    /// Name that the part gets in its partition.
    pub name: String,
}

/// A part that is being written.
struct Open {
    partition: Partition,
    staged: String,
    file: PartWriter,
}

/// Memory for the columns of a row group, which is reused.
#[derive(Default)]
struct Scratch {
    clocks: Vec<i64>,
    arrivals: Vec<i64>,
    addresses: Vec<i64>,
    writes: Vec<bool>,
}

/// Writes the parts of one capture.
pub struct Parts<'a> {
    origin: &'a Origin<'a>,
    staging: &'a Staging<'a>,
    capture: String,
    accesses: AccessWriter,
    /// The parts that are being written, by board and table.
    open: HashMap<(String, Table), Vec<Open>>,
    /// Maximum number of parts in each list of `open`.
    open_hours: usize,
    finished: Vec<StagedPart>,
    /// Number of complete parts in each partition.
    counts: HashMap<Partition, usize>,
    created: usize,
    scratch: Scratch,
}

impl<'a> Parts<'a> {
    /// Creates a writer without parts.
    pub fn new(origin: &'a Origin<'a>, staging: &'a Staging<'a>) -> Result<Self, DatasetError> {
        Ok(Parts {
            origin,
            staging,
            capture: origin.hash.to_string(),
            accesses: AccessWriter::new(
                properties(Table::Accesses, Order::Sorted, origin.encodings),
                origin.encodings,
            )?,
            open: HashMap::new(),
            open_hours: 1,
            finished: Vec::new(),
            counts: HashMap::new(),
            created: 0,
            scratch: Scratch::default(),
        })
    }

    /// Keeps the parts of several hours open for each board and table, for rows that are not
    /// ordered by time.
    pub fn with_open_hours(mut self, hours: usize) -> Self {
        self.open_hours = hours;
        self
    }

    /// Takes rows from the sink, and writes them. At the end of the capture it takes all accesses.
    /// Before the end it takes only as many accesses as fill whole row groups.
    pub fn take(
        &mut self,
        sink: &mut CaptureSink,
        boards: &Boards,
        is_end: bool,
    ) -> Result<(), DatasetError> {
        let capture = self.capture.clone();
        sink.take_rows(&capture, |card, arrival, table, row| {
            let partition = self.partition(table, boards.name(card), arrival);
            self.row(partition, row)
        })?;
        for (card, accesses) in sink.cards.iter_mut().enumerate() {
            self.take_accesses(accesses, boards.name(hmtt::CardId(card)), is_end)?;
        }
        sink.taken();
        Ok(())
    }

    /// Adds a row.
    pub fn row(&mut self, partition: Partition, row: Vec<Value>) -> Result<(), DatasetError> {
        self.open(partition)?.file.row(row)
    }

    /// Completes all parts. Returns them in the order in which they must be published.
    pub fn finish(mut self) -> Result<Vec<StagedPart>, DatasetError> {
        let open: Vec<Open> = self.open.drain().flat_map(|(_, open)| open).collect();
        open.into_iter().try_for_each(|open| self.close(open))?;
        self.finished.sort_by(|first, second| {
            (&first.partition, &first.name).cmp(&(&second.partition, &second.name))
        });
        Ok(self.finished)
    }

    fn partition(&self, table: Table, board: &str, arrival: Duration) -> Partition {
        let (run, board) = (self.origin.run.to_owned(), board.to_owned());
        Partition { table, run, board, hour: Hour::of(arrival) }
    }

    /// Writes the accesses of a card as row groups. Each row group has accesses of one session and
    /// one hour.
    fn take_accesses(
        &mut self,
        accesses: &mut CardAccesses,
        board: &str,
        is_end: bool,
    ) -> Result<(), DatasetError> {
        let (mut start, mut done) = (0, 0);
        while let Some(first) = accesses.frames.get(done) {
            let of_group = |frame: &FrameAccesses| (frame.session, Hour::of(frame.arrival));
            let rest = &accesses.frames[done..];
            let same = rest.iter().take_while(|frame| of_group(frame) == of_group(first)).count();
            let available = rest[same - 1].end;
            let is_complete = is_end || same < rest.len();
            let end = available.min(start + DUE_ACCESSES);
            if end - start < DUE_ACCESSES && !is_complete {
                break;
            }
            let partition = self.partition(Table::Accesses, board, first.arrival);
            self.write_accesses(partition, accesses, &accesses.frames[done..], start..end)?;
            // A frame that has more accesses than fit into the row group is divided.
            done += rest.iter().take_while(|frame| frame.end <= end).count();
            start = end;
        }
        accesses.frames.drain(..done);
        accesses.remove(start);
        Ok(())
    }

    /// Writes a row group. `frames`: the frames from the first access in `rows` on.
    fn write_accesses(
        &mut self,
        partition: Partition,
        accesses: &CardAccesses,
        frames: &[FrameAccesses],
        rows: Range<usize>,
    ) -> Result<(), DatasetError> {
        let Some(session) = frames.first().map(|frame| frame.session as i64) else { return Ok(()) };
        let columns = &accesses.columns;
        let clock = columns.clocks[rows.clone()].iter().max();
        if let Some(clock) = clock.filter(|clock| i64::try_from(**clock).is_err()) {
            return Err(DatasetError::Clock(*clock));
        }
        // The memory of the previous group is reused.
        let Scratch { mut clocks, mut arrivals, mut addresses, mut writes } =
            std::mem::take(&mut self.scratch);
        arrivals.clear();
        for frame in frames {
            if arrivals.len() == rows.len() {
                break;
            }
            arrivals.resize(frame.end.min(rows.end) - rows.start, milliseconds(frame.arrival));
        }
        clocks.clear();
        clocks.extend(columns.clocks[rows.clone()].iter().map(|clock| *clock as i64));
        addresses.clear();
        addresses.extend(columns.addresses[rows.clone()].iter().map(|address| *address as i64));
        writes.clear();
        writes.extend_from_slice(&columns.writes[rows]);
        if !clocks.is_sorted() {
            let mut order: Vec<usize> = (0..clocks.len()).collect();
            order.sort_by_key(|at| clocks[*at]);
            (addresses, arrivals) = (ordered(&addresses, &order), ordered(&arrivals, &order));
            (writes, clocks) = (ordered(&writes, &order), ordered(&clocks, &order));
        }
        let capture = self.capture.clone();
        let group = Group {
            capture: &capture,
            session,
            clocks: &clocks,
            arrivals: &arrivals,
            addresses: &addresses,
            writes: &writes,
        };
        self.open(partition.clone())?;
        let Parts { open, accesses: writer, .. } = self;
        let of_board = open.entry((partition.board.clone(), partition.table)).or_default();
        if let Some(open) = of_board.iter_mut().find(|open| open.partition == partition) {
            open.file.accesses(writer, &group)?;
        }
        self.scratch = Scratch { clocks, arrivals, addresses, writes };
        Ok(())
    }

    /// Returns the open part of a partition. A part with [`MAX_ROWS`] rows is completed and a new
    /// one begun. If too many parts are open, the part of the earliest hour is completed.
    fn open(&mut self, partition: Partition) -> Result<&mut Open, DatasetError> {
        let key = (partition.board.clone(), partition.table);
        let open = self.open.entry(key.clone()).or_default();
        let position = open.iter().position(|open| open.partition == partition);
        let is_long = |place: &usize| open[*place].file.row_count() >= MAX_ROWS;
        let done = match position {
            Some(place) => Some(place).filter(is_long),
            None if open.len() < self.open_hours => None,
            None => (0..open.len()).min_by_key(|place| open[*place].partition.hour),
        };
        if let Some(place) = done {
            let done = open.remove(place);
            self.close(done)?;
        }
        if position.is_none() || done.is_some() {
            let created = self.create(partition.clone())?;
            self.open.entry(key.clone()).or_default().push(created);
        }
        let open = self.open.get_mut(&key).into_iter().flatten();
        let open = { open }.find(|open| open.partition == partition);
        Ok(open.expect("the part was opened"))
    }

    fn create(&mut self, partition: Partition) -> Result<Open, DatasetError> {
        if self.created >= MAX_PARTS {
            let path = self.origin.path.to_owned();
            return Err(DatasetError::Scattered { path, most: MAX_PARTS });
        }
        let staged = self.created.to_string();
        self.created += 1;
        let (path, file) = (self.staging.path(&staged), self.staging.create(&staged)?);
        let file =
            PartWriter::new(path, file, partition.table, Order::Sorted, self.origin.encodings)?;
        Ok(Open { partition, staged, file })
    }

    fn close(&mut self, open: Open) -> Result<(), DatasetError> {
        let Open { partition, staged, file } = open;
        file.finish()?;
        let count = self.counts.entry(partition.clone()).or_default();
        let name = format!("{}-{count}.parquet", self.capture);
        *count += 1;
        self.finished.push(StagedPart { staged, partition, name });
        Ok(())
    }
}

/// The values in the order of `order`, whose elements are indices into `values`. Example: the
/// values `a b c` in the order 2, 0, 1 are `c a b`.
fn ordered<T: Copy>(values: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|at| values[*at]).collect()
}
