//! Merges the small parts of each partition into one part, and removes runs and boards.
//!
//! Short capture files, such as files of one minute, make many small parts, and a query has to open
//! each of them. A merged part has the rows of the small parts one after another, in the order of
//! the parts' first times.

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

/// Number of rows from which a part is not merged: such a part has several full row groups.
const MAX_ROWS: u64 = 1 << 22;
/// Name of the merged part in its staging folder, which has no other part.
const STAGED: &str = "0";

/// Result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Number of parts that were merged and removed.
    pub merged: u64,
    /// Number of parts that replaced them.
    pub written: u64,
}

/// A part that is small enough to be merged, with the first time in its rows.
struct Small {
    path: PathBuf,
    first_time: i64,
}

impl Dataset {
    /// Merges the small parts of each partition. A query that reads a partition at the same time
    /// may see rows twice, or fail to open a part.
    ///
    /// # Errors
    /// A part cannot be read or written. Partitions that were merged before the error stay merged.
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

    /// Merges the small parts of one partition. Returns the number of merged parts; 0 if there are
    /// fewer than two small parts.
    fn compact_partition(&self, partition: &Partition) -> Result<u64, DatasetError> {
        let set = self.folder_to_change()?;
        let commit = CommitLock::take(&set)?;
        let parts = list(&set)?.parts;
        let paths = parts.into_iter().filter(|(owner, _)| owner == partition).map(|(_, path)| path);
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
        small.sort_by(|first, second| {
            (first.first_time, &first.path).cmp(&(second.first_time, &second.path))
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
    /// A part cannot be removed. The next command that changes the data set removes the remaining
    /// parts.
    pub fn drop_run(&self, run: &str, board: Option<&str>) -> Result<u64, DatasetError> {
        let set = self.folder_to_change()?;
        let commit = CommitLock::take(&set)?;
        let mut parts = list(&set)?.parts;
        // The table of runs is removed first, so that a query that joins with it sees no rows of a
        // run that is being removed.
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

/// Writes the rows of the small parts into one staged part.
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

/// The name of a merged part: `merged-` and a hash of the merged parts' paths. It is no hash of a
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
