//! Publishes parts. A change of a data set is made as a whole; if it is interrupted, the next
//! command that changes the data set completes it.
//!
//! ```text
//! DIR/.staging/ID.lock     locked while its process lives
//! DIR/.staging/ID/0, 1...  parts that are written, then made durable
//! DIR/.staging/ID/journal  the change: parts to be placed, parts to be removed. It appears by renaming, when all parts
//!                          are durable; from then on the change will be made
//! DIR/.staging/commit.lock locked while a change is made or completed
//! ```
//!
//! If a process is killed before its journal appears, it has changed nothing, and its folder is
//! removed later. After the journal appears, each step of the change can be repeated. Invariants:
//! parts are placed by renaming, so that each part appears whole. No part is placed before all
//! parts are durable. All parts are placed before any part is removed. The folder `.staging` is no
//! partition, and its files do not end in `.parquet`, so databases do not read it. Readers do not
//! depend on this module (`listing`).
//!
//! A data set may come from another person, or be in a folder that other users can write to. So a
//! writer changes only a data set that belongs to its user. It completes only changes whose folder,
//! journal and parts belong to its user. It opens all names relative to one descriptor.

mod apply;
mod recover;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hmtt_paths::Folder;
use rustix::fs::{FlockOperation, flock, fstat};

use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::journal::{JOURNAL, Step, UNFINISHED_JOURNAL};
use apply::apply;

/// Name of the folder with all staging folders.
pub const FOLDER: &str = ".staging";
const COMMIT_LOCK: &str = "commit.lock";
const LOCK_SUFFIX: &str = ".lock";
/// Permissions of folders, before the umask is applied. Other users may read folders and files,
/// because readers read journals.
const FOLDER_MODE: u32 = 0o755;
/// Permissions of files, before the umask is applied.
const FILE_MODE: u32 = 0o644;

/// A folder in which one process writes parts before they are published.
#[derive(Debug)]
pub struct Staging<'a> {
    set: &'a DataFolder,
    base: Folder,
    folder: Folder,
    /// Name of the staging folder: process id and time.
    id: String,
    /// Whether the journal has appeared and its change is not complete.
    is_begun: bool,
    /// The lock file, locked while the process lives.
    _locked: File,
}

impl<'a> Staging<'a> {
    /// Creates a staging folder, and locks it.
    pub fn begin(set: &'a DataFolder) -> Result<Self, DatasetError> {
        let base = base(set)?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let id = format!("{}-{nanos}", std::process::id());
        let path = set.path(FOLDER).join(&id);
        let locked = lock_new(&base, &lock_name(&id));
        let locked = locked.map_err(|error| DatasetError::file("lock", &path, error))?;
        let created = base.create_folder(id.as_ref(), FOLDER_MODE);
        let folder = created.and_then(|_| base.private_folder(Path::new(&id)));
        let folder = folder.map_err(|error| DatasetError::file("create", &path, error))?;
        Ok(Staging { set, base, folder, id, is_begun: false, _locked: locked })
    }

    /// Path of a file in the folder, for messages.
    pub fn path(&self, name: &str) -> PathBuf {
        self.set.path(FOLDER).join(&self.id).join(name)
    }

    /// Creates a file in the staging folder.
    pub fn create(&self, name: &str) -> Result<File, DatasetError> {
        let created = self.folder.create_file(name.as_ref(), FILE_MODE);
        created.map_err(|error| DatasetError::file("create", &self.path(name), error))
    }

    /// Makes a change. The parts that it places must be durable in the staging folder.
    pub fn commit(mut self, _commit: &CommitLock, steps: &[Step]) -> Result<(), DatasetError> {
        let path = self.path(UNFINISHED_JOURNAL);
        let failed = |error| DatasetError::file("write", &path, error);
        let text = serde_json::to_vec(steps).map_err(|error| failed(error.into()))?;
        let mut file = self.create(UNFINISHED_JOURNAL)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        let renamed =
            self.folder.rename(OsStr::new(UNFINISHED_JOURNAL), &self.folder, OsStr::new(JOURNAL));
        renamed.map_err(failed)?;
        self.is_begun = true;
        self.folder.sync().and_then(|()| self.base.sync()).map_err(failed)?;
        apply(self.set, &self.folder, steps)?;
        self.is_begun = false;
        Ok(())
    }
}

impl Drop for Staging<'_> {
    /// Removes the staging folder, unless it has a change that is not complete. If that fails, the
    /// next process removes the folder.
    fn drop(&mut self) {
        if !self.is_begun {
            let _ = remove(&self.base, &self.id);
        }
    }
}

/// The right to change a data set. Only one process has it at a time.
#[derive(Debug)]
pub struct CommitLock(#[allow(dead_code)] File);

impl CommitLock {
    /// Waits for the right. Then completes the changes of killed processes, and removes their
    /// folders.
    pub fn take(set: &DataFolder) -> Result<Self, DatasetError> {
        let base = base(set)?;
        let path = set.path(FOLDER).join(COMMIT_LOCK);
        let file = base.lock_file(COMMIT_LOCK.as_ref());
        let file = file.map_err(|error| DatasetError::change("open", &path, error))?;
        let locked = flock(&file, FlockOperation::LockExclusive);
        locked.map_err(|error| DatasetError::file("lock", &path, error.into()))?;
        recover::recover(set, &base)?;
        Ok(CommitLock(file))
    }
}

/// Opens the folder `.staging`, which is created if it does not exist. No other user can write to
/// it.
fn base(set: &DataFolder) -> Result<Folder, DatasetError> {
    let path = set.path(FOLDER);
    let name = OsStr::new(FOLDER);
    let created = set.folder().create_folder(name, FOLDER_MODE);
    created.map_err(|error| DatasetError::file("create", &path, error))?;
    let base = set.folder().folder(Path::new(FOLDER)).and_then(|base| {
        // Older versions created the folder with permissions that depended on the umask.
        base.make_private()?;
        Ok(base)
    });
    base.map_err(|error| DatasetError::change("open", &path, error))
}

fn lock_name(id: &str) -> String {
    format!("{id}{LOCK_SUFFIX}")
}

/// Creates and locks the lock file of a staging folder. Before the file is locked, another process
/// may take it for the lock of a dead process and remove it. Then the file is created again.
fn lock_new(base: &Folder, name: &str) -> io::Result<File> {
    loop {
        let file = base.lock_file(name.as_ref())?;
        flock(&file, FlockOperation::LockExclusive)?;
        if is_at(&file, base, name)? {
            return Ok(file);
        }
    }
}

/// Whether `name` still refers to an open file.
fn is_at(file: &File, base: &Folder, name: &str) -> io::Result<bool> {
    let open = fstat(file)?;
    let there = base.status_of(name.as_ref())?;
    Ok(there.is_some_and(|there| (there.st_dev, there.st_ino) == (open.st_dev, open.st_ino)))
}

/// Removes a staging folder: its parts, then its journal, then its lock.
fn remove(base: &Folder, id: &str) -> io::Result<()> {
    let ignore_missing = |result: io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    };
    match base.private_folder(Path::new(id)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        folder => {
            let folder = folder?;
            let names = folder.names()?.into_iter().filter(|name| name != JOURNAL);
            for name in names.chain([JOURNAL.into()]) {
                ignore_missing(folder.remove_file(&name))?;
            }
            ignore_missing(base.remove_folder(id.as_ref()))?;
        }
    }
    ignore_missing(base.remove_file(lock_name(id).as_ref()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_lock_of_a_new_folder_is_not_taken_for_that_of_a_dead_process() {
        let root = tempfile::tempdir().unwrap();
        let set = DataFolder::create(root.path()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(CommitLock::take(&set).unwrap());
                }
            });
            let is_locked = |_: &i32| {
                let staging = Staging::begin(&set).unwrap();
                let lock = lock_name(&staging.id);
                is_at(&staging._locked, &staging.base, &lock).unwrap()
                    && staging.base.folder(Path::new(&staging.id)).is_ok()
            };
            let locked = (0..2000).filter(is_locked).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(locked, 2000, "others see that this process lives");
        });
    }
}
