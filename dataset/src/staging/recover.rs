//! Completes or removes the changes of processes that do not run any more.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use hmtt_paths::Folder;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::apply::apply;
use super::{FOLDER, LOCK_SUFFIX, is_at, lock_name, remove};
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::journal::{self, JOURNAL, is_staging_name};

/// Completes the changes that have a journal, and removes all other staging folders. A change is
/// completed only if its folder, journal and parts belong to this user. Otherwise another user
/// could decide which parts are placed and removed.
pub fn recover(set: &DataFolder, base: &Folder) -> Result<(), DatasetError> {
    let path = set.path(FOLDER);
    let names = base.names().map_err(|error| DatasetError::file("read", &path, error))?;
    let names = names.iter().filter_map(|name| name.to_str());
    let ids: BTreeSet<&str> = names
        .map(|name| name.strip_suffix(LOCK_SUFFIX).unwrap_or(name))
        .filter(|id| is_staging_name(id))
        .collect();
    for id in ids {
        let path = path.join(id);
        let foreign = |error| DatasetError::change("open", &path, error);
        let Some(_locked) = lock_of_dead(base, id).map_err(foreign)? else { continue };
        match base.private_folder(Path::new(id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            folder => complete(set, &folder.map_err(foreign)?, &path)?,
        }
        remove(base, id).map_err(|error| DatasetError::file("remove", &path, error))?;
    }
    Ok(())
}

/// Completes the change of a staging folder, if it has a journal.
fn complete(set: &DataFolder, folder: &Folder, path: &Path) -> Result<(), DatasetError> {
    let path = path.join(JOURNAL);
    let file = match folder.own_file(JOURNAL.as_ref(), OFlags::RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.map_err(|error| DatasetError::change("open", &path, error))?,
    };
    let steps = journal::read(file).map_err(|error| DatasetError::file("read", &path, error))?;
    apply(set, folder, &steps.ok_or(DatasetError::Journal(path))?)
}

/// Takes the lock of a process that does not run any more. Returns `None` if the process still
/// runs, or if the lock file was removed in the meantime.
fn lock_of_dead(base: &Folder, id: &str) -> io::Result<Option<File>> {
    let name = lock_name(id);
    let file = base.lock_file(name.as_ref())?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    Ok(is_at(&file, base, &name)?.then_some(file))
}
