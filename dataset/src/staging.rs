//! Publishes parts: a change of a data set is made whole, or completed by the next command on the data set.
//!
//! ```text
//! DIR/.staging/ID.lock     locked while its process lives
//! DIR/.staging/ID/0, 1...  parts that are written, then made durable
//! DIR/.staging/ID/journal  the change: parts to be placed, parts to be removed. It appears by renaming, when all parts
//!                          are durable; from then on the change will be made
//! DIR/.staging/commit.lock locked while a change is made or completed
//! ```
//!
//! A process that is killed before its journal has changed nothing: its folder is removed later. After that, each
//! step of the change can be repeated. Invariants: parts are placed by renaming, so that they appear whole; no part
//! is placed before all of them are durable. The folder is not a partition, and its files do not end in `.parquet`,
//! so databases do not read it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::DatasetError;

const FOLDER: &str = ".staging";
const JOURNAL: &str = "journal";
const UNFINISHED_JOURNAL: &str = "journal.new";
const COMMIT_LOCK: &str = "commit.lock";
const LOCK_EXTENSION: &str = "lock";
/// Longest journal that is read, in bytes.
const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// A step of a change. Paths are relative to the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A part appears.
    Place {
        /// Name in the staging folder.
        staged: String,
        /// Path of the part.
        path: PathBuf,
    },
    /// A part disappears.
    Remove {
        /// Path of the part.
        path: PathBuf,
    },
}

/// A folder in which one process writes parts before they are published.
#[derive(Debug)]
pub struct Staging {
    root: PathBuf,
    folder: PathBuf,
    lock: PathBuf,
    /// Whether the journal states a change that is not complete.
    is_begun: bool,
    /// Open while the process lives.
    _locked: File,
}

impl Staging {
    /// Creates a staging folder in a data set.
    pub fn begin(root: &Path) -> Result<Self, DatasetError> {
        let base = root.join(FOLDER);
        fs::create_dir_all(&base).map_err(|error| DatasetError::file("create", &base, error))?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let id = format!("{}-{nanos}", std::process::id());
        let (folder, lock) = (base.join(&id), base.join(format!("{id}.{LOCK_EXTENSION}")));
        let locked = lock_new(&lock)?;
        fs::create_dir(&folder).map_err(|error| DatasetError::file("create", &folder, error))?;
        Ok(Staging { root: root.to_owned(), folder, lock, is_begun: false, _locked: locked })
    }

    /// Path of a file in the folder.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a change, whose parts are durable in the folder.
    pub fn commit(mut self, _commit: &CommitLock, steps: &[Step]) -> Result<(), DatasetError> {
        let (unfinished, journal) =
            (self.folder.join(UNFINISHED_JOURNAL), self.folder.join(JOURNAL));
        let failed = |error| DatasetError::file("write", &unfinished, error);
        let text = serde_json::to_vec(steps).map_err(|error| failed(error.into()))?;
        let mut file = File::create_new(&unfinished).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        rename(&unfinished, &journal)?;
        self.is_begun = true;
        sync_folder(&self.folder)?;
        apply(&self.root, &self.folder, steps)?;
        self.is_begun = false;
        Ok(())
    }
}

impl Drop for Staging {
    /// Removes the folder, unless it has a change that is not complete. What cannot be removed is left to the next
    /// process.
    fn drop(&mut self) {
        if !self.is_begun {
            let _ = remove(&self.folder, &self.lock);
        }
    }
}

/// The right to change what a data set has, which one process has at a time.
#[derive(Debug)]
pub struct CommitLock(#[allow(dead_code)] File);

impl CommitLock {
    /// Waits for the right, then completes or removes what killed processes have left.
    pub fn take(root: &Path) -> Result<Self, DatasetError> {
        let base = root.join(FOLDER);
        fs::create_dir_all(&base).map_err(|error| DatasetError::file("create", &base, error))?;
        let commit = CommitLock(lock_file(&base.join(COMMIT_LOCK), FlockOperation::LockExclusive)?);
        recover(root, &base)?;
        Ok(commit)
    }
}

/// Opens and locks a file, which is created if need be.
fn lock_file(path: &Path, operation: FlockOperation) -> Result<File, DatasetError> {
    let failed = |error| DatasetError::file("lock", path, error);
    let file = File::options().create(true).append(true).open(path).map_err(failed)?;
    flock(&file, operation).map_err(|error| failed(error.into()))?;
    Ok(file)
}

/// Creates and locks the lock of a staging folder. Another process may remove it before it is locked, as that of a dead
/// one: then it is created again.
fn lock_new(path: &Path) -> Result<File, DatasetError> {
    loop {
        let file = lock_file(path, FlockOperation::LockExclusive)?;
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Whether a path leads to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Completes or removes the folders of processes that do not live any more.
fn recover(root: &Path, base: &Path) -> Result<(), DatasetError> {
    for entry in read_folder(base)? {
        let is_lock = entry.extension().is_some_and(|extension| extension == LOCK_EXTENSION);
        if !is_lock || entry.file_name().is_some_and(|name| name == COMMIT_LOCK) {
            continue;
        }
        let Some(_locked) = lock_of_dead(&entry)? else { continue };
        let folder = entry.with_extension("");
        let journal = folder.join(JOURNAL);
        match fs::metadata(&journal) {
            Ok(metadata) if metadata.len() <= MAX_JOURNAL_BYTES => {
                let damaged = || DatasetError::Journal(journal.clone());
                let text = fs::read(&journal);
                let text = text.map_err(|error| DatasetError::file("read", &journal, error))?;
                let steps: Vec<Step> = serde_json::from_slice(&text).map_err(|_| damaged())?;
                if !steps.iter().all(is_within) {
                    return Err(damaged());
                }
                apply(root, &folder, &steps)?;
            }
            Ok(_) => return Err(DatasetError::Journal(journal)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(DatasetError::file("read", &journal, error)),
        }
        remove(&folder, &entry).map_err(|error| DatasetError::file("remove", &folder, error))?;
    }
    Ok(())
}

/// The lock of a process that does not live any more; `None` if it lives, or has removed the file meanwhile.
fn lock_of_dead(path: &Path) -> Result<Option<File>, DatasetError> {
    let failed = |error| DatasetError::file("lock", path, error);
    let file = match File::options().append(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    }
    Ok(is_at(&file, path).then_some(file))
}

/// Whether a journal's paths are within the data set.
fn is_within(step: &Step) -> bool {
    let is_normal =
        |path: &Path| path.components().all(|component| matches!(component, Component::Normal(_)));
    match step {
        Step::Place { staged, path } => {
            Path::new(staged).components().count() == 1
                && is_normal(Path::new(staged))
                && is_normal(path)
        }
        Step::Remove { path } => is_normal(path),
    }
}

/// Makes a change, of which any part may have been made already.
fn apply(root: &Path, folder: &Path, steps: &[Step]) -> Result<(), DatasetError> {
    let mut changed: Vec<PathBuf> = Vec::new();
    for step in steps {
        let path = match step {
            Step::Place { staged, path } => {
                let (from, to) = (folder.join(staged), root.join(path));
                let partition = to.parent().unwrap_or(root);
                create_folders(root, partition)?;
                match fs::rename(&from, &to) {
                    // It was placed before the process that did it was killed.
                    Err(error) if error.kind() == ErrorKind::NotFound && to.exists() => {}
                    renamed => renamed.map_err(|error| DatasetError::file("place", &to, error))?,
                }
                to
            }
            Step::Remove { path } => {
                let path = root.join(path);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => {
                        removed.map_err(|error| DatasetError::file("remove", &path, error))?
                    }
                }
                path
            }
        };
        let partition = path.parent().unwrap_or(root).to_owned();
        if changed.last() != Some(&partition) && !changed.contains(&partition) {
            changed.push(partition);
        }
    }
    for partition in changed.iter().filter(|partition| partition.exists()) {
        sync_folder(partition)?;
    }
    changed.iter().for_each(|partition| remove_empty(root, partition));
    Ok(())
}

/// Creates a partition's folders, and makes those durable that were created.
fn create_folders(root: &Path, partition: &Path) -> Result<(), DatasetError> {
    if partition.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(partition)
        .map_err(|error| DatasetError::file("create", partition, error))?;
    let within = partition.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    within.into_iter().try_for_each(sync_folder)
}

/// Removes folders of partitions that have become empty. Others may put a part there at the same time, so failures
/// are none.
fn remove_empty(root: &Path, partition: &Path) {
    for folder in partition.ancestors().take_while(|folder| *folder != root) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

/// Removes a staging folder, the journal last, then its lock.
fn remove(folder: &Path, lock: &Path) -> io::Result<()> {
    let ignore_missing = |result: io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    };
    ignore_missing(fs::remove_dir_all(folder))?;
    ignore_missing(fs::remove_file(lock))
}

/// The paths in a folder, in the order of their names.
pub fn read_folder(folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let failed = |error| DatasetError::file("read", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let paths: io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.sort();
    Ok(paths)
}

fn rename(from: &Path, to: &Path) -> Result<(), DatasetError> {
    fs::rename(from, to).map_err(|error| DatasetError::file("rename", from, error))
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> Result<(), DatasetError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| DatasetError::file("sync", folder, error))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_lock_of_a_new_folder_is_not_taken_for_that_of_a_dead_process() {
        let root = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(CommitLock::take(root.path()).unwrap());
                }
            });
            let is_locked = |_: &i32| {
                let staging = Staging::begin(root.path()).unwrap();
                is_at(&staging._locked, &staging.lock) && staging.folder.is_dir()
            };
            let locked = (0..2000).filter(is_locked).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(locked, 2000, "others see that this process lives");
        });
    }
}
