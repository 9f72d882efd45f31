//! Opens a data set, adds captures and lists parts.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use hmtt::decode::LinkCounts;
use hmtt::table::parquet::{Values, open};
use parquet::basic::Type as Physical;
use parquet::data_type::ByteArrayType;
use parquet::file::reader::FileReader;

use crate::capture::{Ingested, Origin, StagedPart, ingest, lock_capture};
use crate::error::DatasetError;
use crate::identity::CaptureHash;
use crate::log::{self, IngestedLog, LogCounts};
use crate::partition::Partition;
use crate::schema::Table;
use crate::staging::{CommitLock, Staging, Step, read_folder};

/// Extension of parts.
const EXTENSION: &str = "parquet";

/// A data set: a folder of parts.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/examples/worked.pcapng");
/// # let folder = tempfile::tempdir()?;
/// use hmtt_dataset::{AddOptions, Added, Dataset, Table};
///
/// let dataset = Dataset::new(folder.path());
/// let options = AddOptions { run: "first", receiver: None };
/// assert!(matches!(dataset.add(capture.as_ref(), &options)?, Added::New(_)));
/// assert!(matches!(dataset.add(capture.as_ref(), &options)?, Added::Present));
/// let parts = dataset.parts()?;
/// assert!(parts.iter().any(|(partition, _)| partition.table == Table::Accesses));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Dataset {
    root: PathBuf,
}

/// What a capture is added as.
#[derive(Clone, Copy, Debug)]
pub struct AddOptions<'a> {
    /// Name of the run.
    pub run: &'a str,
    /// Name of the receiver: the first part of the names of its boards.
    pub receiver: Option<&'a str>,
}

/// What adding a capture has done.
#[derive(Clone, Debug)]
pub enum Added {
    /// The capture was added.
    New(Box<Summary>),
    /// The data set had the capture already, and is unchanged.
    Present,
}

/// What an added capture or log of tags has.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Hash of the capture or log.
    pub hash: CaptureHash,
    /// Paths of its parts, relative to the data set.
    pub parts: Vec<PathBuf>,
    /// Counts of its cards.
    pub counts: LinkCounts,
    /// What a log of tags has; `None` for a capture.
    pub log: Option<LogCounts>,
    /// Whether it ends within a block or chunk.
    pub is_cut: bool,
}

impl Summary {
    /// Whether anything between the first frame and the last is known to be missing.
    pub fn has_loss(&self) -> bool {
        let has_lost_events = self.log.is_some_and(|log| log.lost_events != 0);
        self.is_cut || self.counts.sum().has_loss() || has_lost_events
    }
}

impl Dataset {
    /// A data set in this folder, which is created when a capture is added.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Dataset { root: root.into() }
    }

    /// A data set that exists. Completes what a killed process has begun to publish.
    ///
    /// # Errors
    /// The folder is no data set, or an interrupted change cannot be completed.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, DatasetError> {
        let dataset = Dataset::new(root);
        let is_table = |table: &Table| dataset.table_folder(*table).is_dir();
        let is_begun = dataset.root.join(".staging").is_dir();
        if !is_begun && !Table::ALL.iter().any(is_table) {
            return Err(DatasetError::NoDataset(dataset.root));
        }
        CommitLock::take(&dataset.root)?;
        Ok(dataset)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Adds a capture or a log of tags. If the data set has one with the same bytes, it is unchanged.
    ///
    /// # Errors
    /// The file is being written or cannot be read, or a part cannot be written. The data set is unchanged then,
    /// unless parts could be placed only in part; the next command on the data set will place the others.
    pub fn add(&self, path: &Path, options: &AddOptions<'_>) -> Result<Added, DatasetError> {
        let locked = lock_capture(path)?;
        let hash = CaptureHash::of_file(path)?;
        drop(CommitLock::take(&self.root)?);
        if self.has(hash)? {
            return Ok(Added::Present);
        }
        let staging = Staging::begin(&self.root)?;
        let origin = Origin { path, hash, run: options.run, receiver: options.receiver };
        let (parts, counts, log, is_cut) = if log::is_log(path)? {
            let IngestedLog { parts, counts, is_cut } = log::ingest(&origin, &staging)?;
            (parts, LinkCounts::default(), Some(counts), is_cut)
        } else {
            let Ingested { parts, counts, is_cut } = ingest(&origin, &staging)?;
            (parts, counts, None, is_cut)
        };
        drop(locked);
        let steps: Vec<Step> = parts.into_iter().map(place).collect();
        let commit = CommitLock::take(&self.root)?;
        // Another process may have added it meanwhile.
        if self.has(hash)? {
            return Ok(Added::Present);
        }
        staging.commit(&commit, &steps)?;
        let parts = steps.into_iter().map(|step| match step {
            Step::Place { path, .. } | Step::Remove { path } => path,
        });
        Ok(Added::New(Box::new(Summary { hash, parts: parts.collect(), counts, log, is_cut })))
    }

    /// All parts with their partitions, in the order of their paths. Paths are relative to the data set.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn parts(&self) -> Result<Vec<(Partition, PathBuf)>, DatasetError> {
        let mut all = Vec::new();
        for table in Table::ALL {
            all.extend(self.parts_of(table)?);
        }
        Ok(all)
    }

    /// The parts of a table, as [`Dataset::parts`].
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn parts_of(&self, table: Table) -> Result<Vec<(Partition, PathBuf)>, DatasetError> {
        let mut folders = vec![self.table_folder(table)];
        // Runs, boards, hours.
        for _ in 0..3 {
            let inner: Result<Vec<_>, _> = folders
                .iter()
                .filter(|folder| folder.is_dir())
                .map(|folder| read_folder(folder))
                .collect();
            folders = inner?.concat();
        }
        let mut parts = Vec::new();
        for folder in folders {
            let relative = folder.strip_prefix(&self.root).unwrap_or(&folder);
            let Some(partition) = Partition::parse(relative) else { continue };
            let files = read_folder(&folder)?.into_iter();
            let files =
                files.filter(|file| file.extension().is_some_and(|found| found == EXTENSION));
            let file =
                |file: PathBuf| file.strip_prefix(&self.root).map(Path::to_owned).unwrap_or(file);
            parts.extend(files.map(|path| (partition.clone(), file(path))));
        }
        Ok(parts)
    }

    /// The captures and logs that the data set has.
    ///
    /// # Errors
    /// A part of a table that describes sessions cannot be read.
    pub fn captures(&self) -> Result<BTreeSet<CaptureHash>, DatasetError> {
        let mut captures = BTreeSet::new();
        for (_, path) in self.parts_of_sessions()? {
            match hash_in_name(&path) {
                Some(hash) => drop(captures.insert(hash)),
                None => captures.extend(captures_in(&self.root.join(path))?),
            }
        }
        Ok(captures)
    }

    /// The parts that describe the sessions of captures and logs, as [`Dataset::parts`].
    pub(crate) fn parts_of_sessions(&self) -> Result<Vec<(Partition, PathBuf)>, DatasetError> {
        let tables = Table::ALL.into_iter().filter(|table| table.is_of_sessions());
        let parts: Result<Vec<_>, _> = tables.map(|table| self.parts_of(table)).collect();
        Ok(parts?.concat())
    }

    fn has(&self, hash: CaptureHash) -> Result<bool, DatasetError> {
        Ok(self.captures()?.contains(&hash))
    }

    fn table_folder(&self, table: Table) -> PathBuf {
        self.root.join(format!("kind={}", table.name()))
    }
}

fn place(part: StagedPart) -> Step {
    let StagedPart { staged, partition, name } = part;
    Step::Place { staged, path: partition.folder().join(name) }
}

/// The capture whose only part this is; `None` for parts of several captures.
fn hash_in_name(path: &Path) -> Option<CaptureHash> {
    let (hash, _) = path.file_stem()?.to_str()?.split_once('-')?;
    CaptureHash::parse(hash)
}

/// The captures in the rows of a part.
fn captures_in(path: &Path) -> Result<BTreeSet<CaptureHash>, DatasetError> {
    let failed = |error| DatasetError::part(path, error);
    let file = File::open(path).map_err(|error| DatasetError::file("open", path, error))?;
    let file = open(file).map_err(failed)?;
    let mut captures = BTreeSet::new();
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number).map_err(|error| DatasetError::part(path, error))?;
        let column = Values::<ByteArrayType>::find(group.as_ref(), "capture", Physical::BYTE_ARRAY);
        let Some(mut column) = column.map_err(failed)? else { continue };
        while column.advance().map_err(failed)? {
            let text = column.get().and_then(|text| std::str::from_utf8(text.data()).ok());
            captures.extend(text.and_then(CaptureHash::parse));
        }
    }
    Ok(captures)
}
