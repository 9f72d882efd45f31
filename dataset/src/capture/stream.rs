//! Reads a capture as the rows that it would have in a data set. No parts are written.
//!
//! Only a few frames are in memory: rows are passed on as soon as the arrival of their frame is
//! known. Accesses are in the order of the trace, whereas parts sort them by clock in each row
//! group.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt::CardId;
use hmtt::capture_reader::CaptureReader;
use hmtt::decode::{Accesses, LinkCounts};
use hmtt::pcapng::ReadError;

use super::boards::Boards;
use super::run_rows::{self, Ending};
use super::sink::CaptureSink;
use crate::error::DatasetError;
use crate::rows::Value;
use crate::schema::Table;

/// Receives the rows of a capture.
pub trait RowSink {
    /// Receives the accesses of one frame. `session`: number of the session. `arrival`: arrival of
    /// the frame since the Unix epoch.
    fn accesses(&mut self, board: &str, session: i64, arrival: Duration, accesses: Accesses<'_>);

    /// Receives a row of another table: the value of each column, in order. `arrival`: the time
    /// that determines the hour of the row's partition.
    fn row(&mut self, board: &str, arrival: Duration, table: Table, row: Vec<Value>);
}

/// Names that the rows of a capture contain.
#[derive(Clone, Copy, Debug)]
pub struct RowOptions<'a> {
    /// Name of the run.
    pub run: &'a str,
    /// Name of the receiver, the first part of the names of boards.
    pub receiver: Option<&'a str>,
    /// Value of the column `capture`: the hash as text, or any text if nobody reads the column.
    pub capture: &'a str,
}

/// A capture that is read as rows.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/examples/worked.pcapng");
/// use std::time::Duration;
///
/// use hmtt::decode::Accesses;
/// use hmtt_dataset::{CaptureRows, RowOptions, RowSink, Table, Value};
///
/// #[derive(Default)]
/// struct Counts(usize, usize);
///
/// impl RowSink for Counts {
///     fn accesses(&mut self, _: &str, _: i64, _: Duration, accesses: Accesses<'_>) {
///         self.0 += accesses.clocks.len();
///     }
///
///     fn row(&mut self, _: &str, _: Duration, table: Table, _: Vec<Value>) {
///         self.1 += usize::from(table == Table::Runs);
///     }
/// }
///
/// let mut counts = Counts::default();
/// let options = RowOptions { run: "worked", receiver: None, capture: "" };
/// let mut rows = CaptureRows::open(path.as_ref(), &options)?;
/// while rows.read(&mut counts)? {}
/// assert_eq!((counts.0, counts.1), (4, 1));
/// # Ok(())
/// # }
/// ```
pub struct CaptureRows {
    path: PathBuf,
    run: String,
    capture: String,
    /// The capture with a shared lock, so that no receiver can lock it and write it meanwhile.
    _locked: File,
    reader: CaptureReader,
    sink: CaptureSink,
    boards: Boards,
    offset: u64,
    counts: Option<LinkCounts>,
}

impl CaptureRows {
    /// Opens a capture.
    ///
    /// # Errors
    /// The capture is being written, or cannot be read.
    pub fn open(path: &Path, options: &RowOptions<'_>) -> Result<Self, DatasetError> {
        let locked = super::lock_capture(path)?;
        let reader = CaptureReader::open(path).map_err(unreadable(path))?;
        Ok(CaptureRows {
            path: path.to_owned(),
            run: options.run.to_owned(),
            capture: options.capture.to_owned(),
            _locked: locked,
            reader,
            sink: CaptureSink::default(),
            boards: Boards::new(options.receiver),
            offset: 0,
            counts: None,
        })
    }

    /// Decodes the next packet, and passes on the rows that are complete. After the last packet,
    /// passes on all other rows, with the rows of [`Table::Runs`] last. Returns whether there was a
    /// packet.
    ///
    /// # Errors
    /// The capture cannot be read further. All rows before the error were passed on.
    pub fn read(&mut self, to: &mut impl RowSink) -> Result<bool, DatasetError> {
        if self.counts.is_some() {
            return Ok(false);
        }
        let CaptureRows { path, reader, sink, boards, offset, .. } = self;
        let is_packet = match reader.next_packet().map_err(unreadable(path))? {
            Some(mut next) => {
                let packet = next.packet.number;
                *offset = next.packet.offset;
                let undated = || DatasetError::Undated { path: path.to_owned(), packet };
                sink.begin(next.packet.time.ok_or_else(undated)?);
                next.decode(sink);
                boards.learn(next.cards(), next.packet.interfaces);
                true
            }
            None => {
                let counts = reader.finish(sink);
                sink.end();
                let links: Vec<_> = counts.cards.iter().map(|card| card.link).collect();
                boards.learn(&links, reader.interfaces());
                self.counts = Some(counts);
                false
            }
        };
        self.pass_on(to)?;
        Ok(is_packet)
    }

    /// Offset of the last packet in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Counts of the capture's cards; `None` before its end.
    pub fn counts(&self) -> Option<&LinkCounts> {
        self.counts.as_ref()
    }

    /// Whether the capture ends within a block. False before its end was read.
    pub fn is_cut(&self) -> bool {
        self.reader.truncated_at().is_some()
    }

    fn pass_on(&mut self, to: &mut impl RowSink) -> Result<(), DatasetError> {
        let is_cut = self.is_cut();
        let CaptureRows { path, run, capture, sink, boards, counts, reader, .. } = self;
        sink.take_rows(capture, |card, arrival, table, row| {
            to.row(boards.name(card), arrival, table, row);
            Ok(())
        })?;
        for (card, accesses) in sink.cards.iter_mut().enumerate() {
            let board = boards.name(CardId(card));
            accesses.take(|frame, accesses| {
                to.accesses(board, frame.session as i64, frame.arrival, accesses);
            });
        }
        sink.taken();
        let Some(counts) = counts else { return Ok(()) };
        let interfaces = reader.interfaces();
        let ending = Ending { path, capture, run, counts, interfaces, is_cut };
        for (partition, row) in run_rows::rows(sink, boards, &ending) {
            to.row(&partition.board, partition.hour.begin(), Table::Runs, row);
        }
        Ok(())
    }
}

fn unreadable(path: &Path) -> impl Fn(ReadError) -> DatasetError {
    move |source| DatasetError::Capture { path: path.to_owned(), source }
}
