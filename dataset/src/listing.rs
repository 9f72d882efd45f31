//! Lists the parts of a data set as a reader sees them, without changing anything.
//!
//! A reader takes no lock. While a process changes the data set, or after such a process was
//! killed, the folders have some parts of the change and not others. So a reader first reads the
//! journals, which state the parts of each change. It lists all parts of a change or none.
//!
//! ```text
//! parts to be placed   all there          not all there
//! shown                the state after    the state before
//! left out             parts to be        parts to be placed
//!                      removed
//! ```
//!
//! All parts are placed before the first part is removed, so the state before the change still has
//! all of its parts. A complete change may happen between reading the journals and reading the
//! folders. So journals and folders are read again and again until two results are equal. A change
//! that began and ended during the first reading is complete in the second one.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt_paths::{Folder, is_regular};

use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::hour::Hour;
use crate::journal::{self, JOURNAL, Step, is_staging_name};
use crate::partition::{Partition, unescape};
use crate::schema::Table;
use crate::staging::FOLDER;

/// Extension of parts.
const EXTENSION: &str = "parquet";
/// Maximum number of attempts to list a data set that changes all the time. If the last attempt
/// finds a change too, listing fails.
const ATTEMPTS: u32 = 300;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Parts with their partitions, ordered by table and path. Paths are relative to the data set.
pub type Parts = Vec<(Partition, PathBuf)>;

/// The parts of a data set, as a reader sees them.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// All visible parts.
    pub parts: Parts,
    /// Number of changes that are being made or were interrupted.
    pub unfinished: usize,
}

/// Journals and parts in the folders of a data set, at one time.
#[derive(PartialEq)]
struct Snapshot {
    journals: Vec<Vec<Step>>,
    parts: Parts,
}

/// Lists the parts of a data set.
pub fn list(set: &DataFolder) -> Result<Listing, DatasetError> {
    let mut before = Snapshot::take(set)?;
    for _ in 0..ATTEMPTS {
        let after = Snapshot::take(set)?;
        if after == before
            && let Some(parts) = after.whole(set)?
        {
            return Ok(Listing { parts, unfinished: after.journals.len() });
        }
        before = after;
        std::thread::sleep(PAUSE);
    }
    Err(DatasetError::Busy(set.path("")))
}

impl Snapshot {
    fn take(set: &DataFolder) -> Result<Self, DatasetError> {
        let journals = journals(set)?;
        let mut parts = Vec::new();
        for table in Table::ALL {
            parts.extend(parts_of(set, table)?);
        }
        Ok(Snapshot { journals, parts })
    }

    /// The visible parts, without the parts that a journal hides. `None` if parts were placed since
    /// the folders were read.
    fn whole(&self, set: &DataFolder) -> Result<Option<Parts>, DatasetError> {
        let there: BTreeSet<&Path> = self.parts.iter().map(|(_, path)| &**path).collect();
        let mut hidden: BTreeSet<&Path> = BTreeSet::new();
        for steps in &self.journals {
            let places = steps.iter().filter(|step| step.is_place()).map(Step::path);
            let missing: Vec<&Path> = places.filter(|path| !there.contains(path)).collect();
            let is_after = missing.is_empty();
            if !is_after && missing.iter().all(|path| set.part(path).is_ok()) {
                return Ok(None);
            }
            let left_out = steps.iter().filter(|step| step.is_place() != is_after);
            hidden.extend(left_out.map(Step::path));
        }
        let parts = self.parts.iter().filter(|(_, path)| !hidden.contains(&**path));
        Ok(Some(parts.cloned().collect()))
    }
}

/// Reads the journals of changes that are being made or were interrupted.
fn journals(set: &DataFolder) -> Result<Vec<Vec<Step>>, DatasetError> {
    let Some(base) = open(set, set.folder(), Path::new(FOLDER), Path::new(FOLDER))? else {
        return Ok(Vec::new());
    };
    let mut journals = Vec::new();
    for name in names(set, &base, Path::new(FOLDER))? {
        if !is_staging_name(&name) {
            continue;
        }
        let path = Path::new(FOLDER).join(&name);
        let Some(folder) = open(set, &base, Path::new(&name), &path)? else { continue };
        let path = path.join(JOURNAL);
        let failed = |error| DatasetError::file("read", &set.path(&path), error);
        let file = match folder.file(Path::new(JOURNAL)) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => file.map_err(failed)?,
        };
        let steps = journal::read(file).map_err(failed)?;
        journals.push(steps.ok_or_else(|| DatasetError::Journal(set.path(&path)))?);
    }
    Ok(journals)
}

/// Prefixes of the names of a partition's folders, below the folder of the table.
const LEVELS: [&str; 3] = ["run=", "board=", "hour="];

/// The parts in the folders of a table.
fn parts_of(set: &DataFolder, table: Table) -> Result<Parts, DatasetError> {
    let path = PathBuf::from(format!("kind={}", table.name()));
    let mut parts = Vec::new();
    if let Some(folder) = open(set, set.folder(), &path, &path)? {
        descend(set, &folder, &path, &LEVELS, &mut parts)?;
    }
    Ok(parts)
}

/// Adds the parts below a folder. `levels`: prefixes of the folder names between `folder` and its
/// parts.
fn descend(
    set: &DataFolder,
    folder: &Folder,
    path: &Path,
    levels: &[&str],
    parts: &mut Parts,
) -> Result<(), DatasetError> {
    let [key, inner @ ..] = levels else {
        return parts_in(set, folder, path, parts);
    };
    for name in names(set, folder, path)? {
        let is_level = name.strip_prefix(key).is_some_and(|value| match inner {
            [] => Hour::parse(value).is_some(),
            _ => unescape(value).is_some(),
        });
        let path = path.join(&name);
        if is_level && let Some(folder) = open(set, folder, Path::new(&name), &path)? {
            descend(set, &folder, &path, inner, parts)?;
        }
    }
    Ok(())
}

/// Adds the parts in the folder of a partition.
fn parts_in(
    set: &DataFolder,
    folder: &Folder,
    path: &Path,
    parts: &mut Parts,
) -> Result<(), DatasetError> {
    let Some(partition) = Partition::parse(path) else { return Ok(()) };
    for name in names(set, folder, path)? {
        let path = path.join(&name);
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let status = folder.status_of(name.as_ref());
        match status.map_err(|error| DatasetError::file("read", &set.path(&path), error))? {
            Some(status) if is_regular(&status) => parts.push((partition.clone(), path)),
            Some(_) => return Err(DatasetError::NoPart(set.path(path))),
            None => {}
        }
    }
    Ok(())
}

/// Opens a folder; `None` if it does not exist. `path`: path of the folder, relative to the data
/// set.
fn open(
    set: &DataFolder,
    around: &Folder,
    name: &Path,
    path: &Path,
) -> Result<Option<Folder>, DatasetError> {
    match around.folder(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => {
            opened.map(Some).map_err(|error| DatasetError::file("open", &set.path(path), error))
        }
    }
}

/// The names in a folder that are valid text. All names in a data set are.
fn names(set: &DataFolder, folder: &Folder, path: &Path) -> Result<Vec<String>, DatasetError> {
    let names = folder.names();
    let names = names.map_err(|error| DatasetError::file("read", &set.path(path), error))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}
