//! Merges the small parts of each partition into one, and drops runs and boards.
//!
//! Files of a capture that are short, such as those of one minute, are many small parts, each of
//! which a query has to open. The rows of a merged part have the order of the parts by their first
//! time, and within a part its own.

use std::path::PathBuf;

use hmtt::table::parquet::Encodings;

use crate::data_folder::DataFolder;
use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::journal::Step;
use crate::listing::list;
use crate::part::{Order, PartWriter};
use crate::partition::Partition;
use crate::reader::PartReader;
use crate::rows::Value;
use crate::schema::Table;
use crate::staging::{CommitLock, Staging};

/// Rows from which a part is not merged any more: it has several full row groups.
const MAX_ROWS: u64 = 1 << 22;
/// Name of the only file that is staged for a partition.
const STAGED: &str = "0";

/// What a compaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Parts that were merged.
    pub merged: u64,
    /// Parts that took their place.
    pub written: u64,
}

/// A part that is small enough to be merged.
struct Small {
    path: PathBuf,
    first_time: i64,
}

impl Dataset {
    /// Merges the small parts of each partition. A query that reads the partition meanwhile may see
    /// rows twice, or miss a part that it wanted to open.
    ///
    /// # Errors
    /// A part cannot be read or written. Partitions that were merged before remain so.
    pub fn compact(&self) -> Result<Compacted, DatasetError> {
        let mut partitions: Vec<Partition> =
            self.parts()?.into_iter().map(|(partition, _)| partition).collect();
        partitions.dedup();
        let mut compacted = Compacted::default();
        for partition in partitions {
            let merged = self.compact_partition(&partition)?;
            compacted.merged += merged;
            compacted.written += u64::from(merged != 0);
        }
        Ok(compacted)
    }

    /// Merges the small parts of a partition. Returns their number; 0 if there are not several.
    fn compact_partition(&self, partition: &Partition) -> Result<u64, DatasetError> {
        let set = self.folder_to_change()?;
        let commit = CommitLock::take(&set)?;
        let all = list(&set)?.parts;
        let paths = all.into_iter().filter(|(of, _)| of == partition).map(|(_, path)| path);
        let mut small = Vec::new();
        for path in paths {
            let reader = PartReader::open(&set, &path, partition.table)?;
            if reader.row_count() < MAX_ROWS {
                let first_time = reader.least(partition.table.time()).unwrap_or(i64::MAX);
                small.push(Small { path, first_time });
            }
        }
        if small.len() < 2 {
            return Ok(0);
        }
        small.sort_by(|one, other| {
            (one.first_time, &one.path).cmp(&(other.first_time, &other.path))
        });
        let staging = Staging::begin(&set)?;
        merge(&set, partition.table, &small, &staging, self.encodings())?;
        let path = partition.folder().join(name(&small));
        let place = Step::Place { staged: STAGED.to_owned(), path };
        let remove = small.iter().map(|part| Step::Remove { path: part.path.clone() });
        let steps: Vec<Step> = std::iter::once(place).chain(remove).collect();
        staging.commit(&commit, &steps)?;
        Ok(small.len() as u64)
    }

    /// Removes a run, or one board of it. Returns the number of removed parts.
    ///
    /// # Errors
    /// A part cannot be removed. What remains is removed by the next command on the data set.
    pub fn drop_run(&self, run: &str, board: Option<&str>) -> Result<u64, DatasetError> {
        let set = self.folder_to_change()?;
        let commit = CommitLock::take(&set)?;
        let mut parts = list(&set)?.parts;
        // A query that joins with runs sees nothing of what is removed.
        parts.reverse();
        let is_dropped = |partition: &Partition| {
            partition.run == run && board.is_none_or(|board| partition.board == board)
        };
        let dropped = parts.into_iter().filter(|(partition, _)| is_dropped(partition));
        let steps: Vec<Step> = dropped.map(|(_, path)| Step::Remove { path }).collect();
        if !steps.is_empty() {
            Staging::begin(&set)?.commit(&commit, &steps)?;
        }
        Ok(steps.len() as u64)
    }
}

/// Writes the rows of small parts into one.
fn merge(
    set: &DataFolder,
    table: Table,
    small: &[Small],
    staging: &Staging<'_>,
    encodings: Encodings,
) -> Result<(), DatasetError> {
    let (path, file) = (staging.path(STAGED), staging.create(STAGED)?);
    let mut writer = PartWriter::new(path, file, table, Order::Trace, encodings)?;
    for part in small {
        let reader = PartReader::open(set, &part.path, table)?;
        for number in 0..reader.group_count() {
            let mut group = reader.group(number)?;
            let columns: Result<Vec<Vec<Value>>, _> =
                table.columns().iter().map(|column| group.values(column)).collect();
            let mut columns: Vec<_> = columns?.into_iter().map(Vec::into_iter).collect();
            let rows = columns.first().map_or(0, ExactSizeIterator::len);
            for _ in 0..rows {
                let next = |column: &mut std::vec::IntoIter<Value>| column.next();
                writer
                    .row(columns.iter_mut().map(|column| next(column).unwrap_or(Value::Absent)))?;
            }
        }
    }
    writer.finish()
}

/// The name of the part into which others are merged: the hash of their paths. It is no hash of a
/// capture.
fn name(small: &[Small]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in small {
        hasher.update(part.path.as_os_str().as_encoded_bytes());
        hasher.update(b"\n");
    }
    let hash = hasher.finalize().to_hex();
    format!("merged-{}.parquet", &hash[..32])
}
