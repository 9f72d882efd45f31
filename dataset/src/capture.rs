//! Reads a capture, and writes its rows into parts that are not published yet.
//!
//! ```text
//! capture -> sink      accesses and items of each card, with session and arrival
//!         -> item_rows items -> rows of tables
//!         -> parts     accesses, rows -> files, one for each table, board and hour
//!         -> run_rows  facts about each session, at the end -> rows of `runs`
//! capture -> stream    the same rows, without files
//! ```

mod boards;
mod item_rows;
mod parts;
mod run_rows;
mod sink;
mod stream;

use std::fs::File;
use std::path::Path;

use hmtt::capture_reader::CaptureReader;
use hmtt::decode::LinkCounts;
use hmtt::pcapng::{Interface, ReadError, Reading};
use hmtt::table::parquet::Encodings;
use hmtt_paths::open_file;
use rustix::fs::{FlockOperation, flock};

use crate::error::DatasetError;
use crate::identity::CaptureHash;
use crate::staging::Staging;
use boards::Boards;
pub use parts::{Parts, StagedPart};
use run_rows::Ending;
use sink::CaptureSink;
pub use stream::{CaptureRows, RowOptions, RowSink};

/// A capture, with the names under which it is added.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Path of the capture.
    pub path: &'a Path,
    /// Hash of the capture's bytes.
    pub hash: CaptureHash,
    /// Name of the run.
    pub run: &'a str,
    /// Name of the receiver, the first part of its boards' names.
    pub receiver: Option<&'a str>,
    /// Encodings of the parts.
    pub encodings: Encodings,
}

/// The written parts of a capture.
#[derive(Debug)]
pub struct Ingested {
    /// The parts, in the order in which they must be published.
    pub parts: Vec<StagedPart>,
    /// Counts of the capture's cards.
    pub counts: LinkCounts,
    /// Whether the capture ends within a block.
    pub is_cut: bool,
}

/// Writes the parts of a capture into a staging folder.
///
/// # Errors
/// The capture cannot be read, or a part cannot be written.
pub fn ingest(origin: &Origin<'_>, staging: &Staging<'_>) -> Result<Ingested, DatasetError> {
    let unreadable =
        |source: ReadError| DatasetError::Capture { path: origin.path.to_owned(), source };
    // The capture was just read for its hash, so its content is in the page cache.
    let mut reader = CaptureReader::open_as(origin.path, Reading::Shared).map_err(unreadable)?;
    let mut sink = CaptureSink::default();
    let mut parts = Parts::new(origin, staging)?;
    let mut boards = Boards::new(origin.receiver);
    while let Some(mut next) = reader.next_packet().map_err(unreadable)? {
        let packet = next.packet.number;
        let undated = || DatasetError::Undated { path: origin.path.to_owned(), packet };
        sink.begin(next.packet.time.ok_or_else(undated)?);
        next.decode(&mut sink);
        if sink.is_due() {
            boards.learn(next.cards(), next.packet.interfaces);
            parts.take(&mut sink, &boards, false)?;
        }
    }
    let counts = reader.finish(&mut sink);
    if counts.sum().frames == 0 {
        return Err(DatasetError::NoFrames { path: origin.path.to_owned() });
    }
    sink.end();
    let links: Vec<_> = counts.cards.iter().map(|card| card.link).collect();
    let interfaces: &[Interface] = reader.interfaces();
    boards.learn(&links, interfaces);
    parts.take(&mut sink, &boards, true)?;
    let is_cut = reader.truncated_at().is_some();
    let capture = origin.hash.to_string();
    let Origin { path, run, .. } = *origin;
    let ending = Ending { path, capture: &capture, run, counts: &counts, interfaces, is_cut };
    for (partition, row) in run_rows::rows(&sink, &boards, &ending) {
        parts.row(partition, row)?;
    }
    Ok(Ingested { parts: parts.finish()?, counts, is_cut })
}

/// Opens a capture, and takes a shared lock. A receiver locks the file exclusively while it writes,
/// so that an unfinished capture is an error here.
pub fn lock_capture(path: &Path) -> Result<File, DatasetError> {
    let file = open_file(path).map_err(|error| DatasetError::file("open", path, error))?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(DatasetError::Unfinished(path.to_owned())),
        Err(error) => Err(DatasetError::file("lock", path, error.into())),
        Ok(()) => Ok(file),
    }
}
