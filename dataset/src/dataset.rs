//! Opens data sets, adds captures to them and lists their parts.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hmtt::decode::LinkCounts;
use hmtt::table::parquet::{Encodings, Values, open};
use parquet::basic::Type as Physical;
use parquet::data_type::ByteArrayType;
use parquet::file::reader::FileReader;

use crate::capture::{Ingested, Origin, StagedPart, ingest, lock_capture};
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::identity::CaptureHash;
use crate::journal::Step;
use crate::listing::{Listing, list};
use crate::log::{self, IngestedLog, LogCounts};
use crate::partition::Partition;
use crate::schema::Table;
use crate::staging::{CommitLock, FOLDER, Staging};

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
    encodings: Encodings,
}

/// Names under which a capture or log is added.
#[derive(Clone, Copy, Debug)]
pub struct AddOptions<'a> {
    /// Name of the run.
    pub run: &'a str,
    /// Name of the receiver: the first part of the names of its boards.
    pub receiver: Option<&'a str>,
}

/// Result of adding a capture or log.
#[derive(Clone, Debug)]
pub enum Added {
    /// The file was added.
    New(Box<Summary>),
    /// The data set already has a file with the same bytes, and is unchanged.
    Present,
}

/// Counts of an added capture or log of tags.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Hash of the capture or log.
    pub hash: CaptureHash,
    /// Paths of the new parts, relative to the data set.
    pub parts: Vec<PathBuf>,
    /// Counts of the capture's cards; empty for a log.
    pub counts: LinkCounts,
    /// Counts of a log of tags; `None` for a capture.
    pub log: Option<LogCounts>,
    /// Whether the file ends within a block or chunk.
    pub is_cut: bool,
}

impl Summary {
    /// Whether anything between the first and the last frame is known to be missing, or events of a
    /// log are lost.
    pub fn has_loss(&self) -> bool {
        let has_lost_events = self.log.is_some_and(|log| log.lost_events != 0);
        self.is_cut || self.counts.sum().has_loss() || has_lost_events
    }
}

impl Dataset {
    /// A data set in this folder. The folder is created when a file is added.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Dataset { root: root.into(), encodings: Encodings::default() }
    }

    /// Selects the encodings of the parts that will be written.
    pub fn with_encodings(self, encodings: Encodings) -> Self {
        Dataset { encodings, ..self }
    }

    /// The encodings of the parts that will be written.
    pub(crate) fn encodings(&self) -> Encodings {
        self.encodings
    }

    /// Opens an existing data set for reading. Nothing is changed or locked, so the data set may
    /// belong to another user.
    ///
    /// # Errors
    /// The folder is no data set, or cannot be read.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, DatasetError> {
        let dataset = Dataset::new(root);
        let set = dataset.folder()?;
        let names = Table::ALL.iter().map(|table| format!("kind={}", table.name()));
        for name in names.chain([FOLDER.to_owned()]) {
            let status = set.folder().status_of(name.as_ref());
            let status =
                status.map_err(|error| DatasetError::file("read", &set.path(name), error))?;
            if status.is_some() {
                return Ok(dataset);
            }
        }
        Err(DatasetError::NoDataset(dataset.root))
    }

    /// Path of the data set's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Adds a capture or a log of tags. If the data set already has a file with the same bytes,
    /// nothing changes.
    ///
    /// # Errors
    /// The file is being written or cannot be read, or a part cannot be written. Then the data set
    /// is unchanged. One exception: if only some of the parts could be placed, the next command
    /// that changes the data set places the others.
    pub fn add(&self, path: &Path, options: &AddOptions<'_>) -> Result<Added, DatasetError> {
        let locked = lock_capture(path)?;
        let hash = CaptureHash::of_file(path)?;
        let set = self.folder_to_change()?;
        drop(CommitLock::take(&set)?);
        if captures(&set)?.contains(&hash) {
            return Ok(Added::Present);
        }
        let staging = Staging::begin(&set)?;
        let AddOptions { run, receiver } = *options;
        let origin = Origin { path, hash, run, receiver, encodings: self.encodings };
        let (parts, counts, log, is_cut) = if log::is_log(path)? {
            let IngestedLog { parts, counts, is_cut } = log::ingest(&origin, &staging)?;
            (parts, LinkCounts::default(), Some(counts), is_cut)
        } else {
            let Ingested { parts, counts, is_cut } = ingest(&origin, &staging)?;
            (parts, counts, None, is_cut)
        };
        drop(locked);
        let steps: Vec<Step> = parts.into_iter().map(place).collect();
        let commit = CommitLock::take(&set)?;
        // Another process may have added the same file in the meantime.
        if captures(&set)?.contains(&hash) {
            return Ok(Added::Present);
        }
        staging.commit(&commit, &steps)?;
        let parts = steps.iter().map(|step| step.path().to_owned());
        Ok(Added::New(Box::new(Summary { hash, parts: parts.collect(), counts, log, is_cut })))
    }

    /// All parts with their partitions, in the order of their paths. Paths are relative to the data
    /// set. If a change is being made or was interrupted, either all of its parts are listed or
    /// none.
    ///
    /// # Errors
    /// A folder cannot be read, or the data set changes too often to be listed.
    pub fn parts(&self) -> Result<Vec<(Partition, PathBuf)>, DatasetError> {
        Ok(self.listing()?.parts)
    }

    /// The parts of one table, listed as by [`Dataset::parts`].
    ///
    /// # Errors
    /// As [`Dataset::parts`].
    pub fn parts_of(&self, table: Table) -> Result<Vec<(Partition, PathBuf)>, DatasetError> {
        let parts = self.parts()?.into_iter();
        Ok(parts.filter(|(partition, _)| partition.table == table).collect())
    }

    /// Opens a part for reading. `path`: a path that [`Dataset::parts`] has returned. Only regular
    /// files are opened, and no link is followed.
    ///
    /// # Errors
    /// The part does not exist, or may not be read.
    pub fn open_part(&self, path: &Path) -> Result<File, DatasetError> {
        self.folder()?.part(path)
    }

    /// Number of changes that are being made or were interrupted. The next command that changes the
    /// data set completes interrupted ones.
    ///
    /// # Errors
    /// As [`Dataset::parts`].
    pub fn unfinished_changes(&self) -> Result<usize, DatasetError> {
        Ok(self.listing()?.unfinished)
    }

    /// Hashes of the captures and logs in the data set.
    ///
    /// # Errors
    /// A part of a table that describes sessions cannot be read.
    pub fn captures(&self) -> Result<BTreeSet<CaptureHash>, DatasetError> {
        if self.is_absent() { Ok(BTreeSet::new()) } else { captures(&self.folder()?) }
    }

    /// Opens the folder for reading.
    pub(crate) fn folder(&self) -> Result<DataFolder, DatasetError> {
        DataFolder::open(&self.root)
    }

    /// Opens the folder for changes. The folder is created if it does not exist.
    pub(crate) fn folder_to_change(&self) -> Result<DataFolder, DatasetError> {
        DataFolder::create(&self.root)
    }

    fn listing(&self) -> Result<Listing, DatasetError> {
        if self.is_absent() { Ok(Listing::default()) } else { list(&self.folder()?) }
    }

    /// Whether nothing was added yet, so that the folder does not exist.
    fn is_absent(&self) -> bool {
        self.root.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

/// Hashes of the captures and logs in a data set.
fn captures(set: &DataFolder) -> Result<BTreeSet<CaptureHash>, DatasetError> {
    let mut captures = BTreeSet::new();
    let parts = list(set)?.parts.into_iter();
    for (_, path) in parts.filter(|(partition, _)| partition.table.is_of_sessions()) {
        match hash_in_name(&path) {
            Some(hash) => drop(captures.insert(hash)),
            None => captures.extend(captures_in(set, &path)?),
        }
    }
    Ok(captures)
}

fn place(part: StagedPart) -> Step {
    let StagedPart { staged, partition, name } = part;
    Step::Place { staged, path: partition.folder().join(name) }
}

/// The hash of the capture in the name of a part; `None` if the part was merged from several
/// captures.
fn hash_in_name(path: &Path) -> Option<CaptureHash> {
    let (hash, _) = path.file_stem()?.to_str()?.split_once('-')?;
    CaptureHash::parse(hash)
}

/// The hashes of the captures in the rows of a part.
fn captures_in(set: &DataFolder, path: &Path) -> Result<BTreeSet<CaptureHash>, DatasetError> {
    let full = set.path(path);
    let failed = |error| DatasetError::part(&full, error);
    let file = open(set.part(path)?).map_err(failed)?;
    let mut captures = BTreeSet::new();
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number).map_err(|error| DatasetError::part(&full, error))?;
        let column = Values::<ByteArrayType>::find(group.as_ref(), "capture", Physical::BYTE_ARRAY);
        let Some(mut column) = column.map_err(failed)? else { continue };
        while column.advance().map_err(failed)? {
            let text = column.get().and_then(|text| std::str::from_utf8(text.data()).ok());
            captures.extend(text.and_then(CaptureHash::parse));
        }
    }
    Ok(captures)
}
