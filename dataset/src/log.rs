//! Reads a log of `hmtt tag`, and writes its rows into parts that are not published yet.
//!
//! ```text
//! log -> clock    readings of clocks -> times of ticks (a first pass)
//!     -> calls    events -> calls, each with its caller and depth -> rows of `calls`
//!     -> threads  facts about each thread, at the end             -> rows of `threads`
//! ```
//!
//! Each thread is a session. Each call, which begins with the entry of a function, has a row,
//! whatever has ended the call. Rows are passed on after each chunk, so memory holds only the open
//! calls.

mod calls;
mod clock;
mod threads;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use hmtt::tags::log_reader::LogReader;
use hmtt::tags::names::Names;
use hmtt::tags::threads::Threads;
use hmtt_files::tag_log::{Header, MAGIC};
use hmtt_files::tag_map::TagMap;
use hmtt_paths::open_file;
use parquet::data_type::ByteArray;

use crate::capture::{Origin, Parts, StagedPart};
use crate::error::DatasetError;
use crate::hour::Hour;
use crate::partition::Partition;
use crate::schema::Table;
use crate::staging::Staging;
use calls::{CallRows, Texts};
use clock::LogClock;
pub use threads::EXITS;
use threads::{Ending, Exits};

/// Number of hours whose parts are open at the same time, because chunks of different threads are
/// not ordered by time.
const OPEN_HOURS: usize = 4;

/// Counts of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Number of threads.
    pub threads: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of events that are known to be lost.
    pub lost_events: u64,
}

/// The written parts of a log.
#[derive(Debug)]
pub struct IngestedLog {
    /// The parts, in the order in which they must be published.
    pub parts: Vec<StagedPart>,
    /// Counts of the log.
    pub counts: LogCounts,
    /// Whether the log ends within a chunk.
    pub is_cut: bool,
}

/// Whether a file begins like a log of tags.
pub fn is_log(path: &Path) -> Result<bool, DatasetError> {
    let failed = |error| DatasetError::file("open", path, error);
    let mut first = [0; MAGIC.len()];
    match open_file(path).map_err(failed)?.read_exact(&mut first) {
        Ok(()) => Ok(first == MAGIC),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(DatasetError::file("read", path, error)),
    }
}

/// Opens a log and its map.
///
/// # Errors
/// The log or its map cannot be read, or the map belongs to another log.
pub fn open(path: &Path) -> Result<(LogReader<File>, TagMap), DatasetError> {
    let failed = |error| DatasetError::file("open", path, error);
    let reader = LogReader::new(open_file(path).map_err(failed)?);
    let reader = reader.map_err(DatasetError::log(path))?;
    let map = TagMap::load(&TagMap::path_beside(path))
        .map_err(|source| DatasetError::Map { path: path.to_owned(), source })?;
    if map.id != reader.header().map_id {
        return Err(DatasetError::OtherMap(path.to_owned()));
    }
    Ok((reader, map))
}

/// Writes the parts of a log into a staging folder.
///
/// # Errors
/// The log or its map cannot be read, or a part cannot be written.
pub fn ingest(origin: &Origin<'_>, staging: &Staging<'_>) -> Result<IngestedLog, DatasetError> {
    let path = origin.path;
    let clock = LogClock::read(path)?;
    let (mut reader, map) = open(path)?;
    let header = *reader.header();
    let board = board(&header, origin.receiver);
    let program = map.program.display().to_string();
    let names = Names::new(map);
    let mut threads =
        Threads::new(header.is_timed, names.functions_of_blocks(), CallRows::default());
    let mut parts = Parts::new(origin, staging)?.with_open_hours(OPEN_HOURS);
    let mut texts = Texts::new(&names, origin.hash);
    let mut exits = BTreeMap::<usize, Exits>::new();
    let mut offset = reader.offset();
    let mut is_over = false;
    while !is_over {
        match reader.next_chunk().map_err(DatasetError::log(path))? {
            Some(chunk) => threads.chunk(&chunk).map_err(|source| DatasetError::Log {
                path: path.to_owned(),
                source: hmtt::tags::log_reader::TagLogError::Log { offset, source },
            })?,
            None => {
                threads.finish();
                is_over = true;
            }
        }
        offset = reader.offset();
        for call in threads.listener.take() {
            exits.entry(call.session).or_default().add(call.exit);
            let (end, row) = texts.row(&call, &clock);
            let (run, board) = (origin.run.to_owned(), board.clone());
            let partition = Partition { table: Table::Calls, run, board, hour: Hour::of(end) };
            parts.row(partition, row)?;
        }
    }
    let is_cut = reader.cut_at().is_some();
    let start = Duration::from_nanos(header.start_ns);
    let (run, hour) = (origin.run.to_owned(), Hour::of(start));
    let partition = Partition { table: Table::Threads, run, board, hour };
    let capture = ByteArray::from(&*origin.hash.to_string());
    let (program, header) = (&*program, &header);
    let ending = Ending { path, capture, program, header, ending: threads.ending, is_cut };
    let mut counts = LogCounts::default();
    for (number, thread) in threads.threads.iter().enumerate() {
        let exits = exits.get(&number).copied().unwrap_or_default();
        counts.threads += 1;
        counts.calls += exits.calls();
        let lost = thread.lost.values();
        counts.lost_events = lost.fold(counts.lost_events, |sum, lost| sum.saturating_add(*lost));
        parts.row(partition.clone(), threads::row(number, thread, &exits, &ending))?;
    }
    Ok(IngestedLog { parts: parts.finish()?, counts, is_cut })
}

/// Name of a log's board: `pid` and the process id, after the name of the receiver if there is one.
fn board(header: &Header, receiver: Option<&str>) -> String {
    match receiver {
        Some(receiver) => format!("{receiver}-pid{}", header.pid),
        None => format!("pid{}", header.pid),
    }
}
