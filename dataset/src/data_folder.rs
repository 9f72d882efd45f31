//! Opens the folder of a data set, for readers and for writers.
//!
//! All files below the folder are opened by names relative to one descriptor, and no link is
//! followed. Writers accept only files and folders that belong to their user.

use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hmtt_paths::{Folder, check_owner};

use crate::error::DatasetError;
use crate::partition::Partition;

/// Permissions of folders in a data set, before the umask is applied.
const FOLDER_MODE: u32 = 0o755;

/// The open folder of a data set.
#[derive(Debug)]
pub struct DataFolder {
    root: PathBuf,
    folder: Folder,
}

impl DataFolder {
    /// Opens a folder for reading.
    pub fn open(root: &Path) -> Result<Self, DatasetError> {
        let folder = Folder::open(root).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                DatasetError::NoDataset(root.to_owned())
            }
            _ => DatasetError::file("open", root, error),
        })?;
        Ok(DataFolder { root: root.to_owned(), folder })
    }

    /// Opens a folder for changes. The folder is created if it does not exist.
    pub fn create(root: &Path) -> Result<Self, DatasetError> {
        let folder = Folder::create_to_change(root, FOLDER_MODE);
        let folder = folder.map_err(|error| DatasetError::change("create", root, error))?;
        let set = DataFolder { root: root.to_owned(), folder };
        let owned = set.folder.status().and_then(|status| check_owner(&status));
        owned.map_err(|error| DatasetError::change("open", root, error))?;
        Ok(set)
    }

    /// The open folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The path of a file below the folder, for messages.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Opens a part for reading.
    pub fn part(&self, path: &Path) -> Result<File, DatasetError> {
        let opened = self.folder.file(path);
        opened.map_err(|error| DatasetError::file("open", &self.path(path), error))
    }

    /// Opens the folder of a partition for changes; `None` if it does not exist.
    pub fn partition(&self, partition: &Partition) -> Result<Option<Folder>, DatasetError> {
        let path = partition.folder();
        match self.folder.own_folder(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DatasetError::change("open", &self.path(path), error)),
            Ok(folder) => Ok(Some(folder)),
        }
    }

    /// Opens the folder of a partition for changes. Missing folders are created and made durable.
    pub fn create_partition(&self, partition: &Partition) -> Result<Folder, DatasetError> {
        if let Some(folder) = self.partition(partition)? {
            return Ok(folder);
        }
        let path = partition.folder();
        let failed = |error| DatasetError::change("create", &self.path(&path), error);
        let mut inner: Option<Folder> = None;
        for name in path.iter() {
            let around = inner.as_ref().unwrap_or(&self.folder);
            if around.create_folder(name, FOLDER_MODE).map_err(failed)? {
                around.sync().map_err(failed)?;
            }
            let folder = around.own_folder(Path::new(name)).map_err(failed)?;
            inner = Some(folder);
        }
        inner.ok_or_else(|| failed(ErrorKind::NotFound.into()))
    }

    /// Removes the folders of a partition that are empty. Failures are ignored, because another
    /// process may put a part there at the same time.
    pub fn remove_empty(&self, partition: &Partition) {
        let path = partition.folder();
        for folder in path.ancestors() {
            let (Some(around), Some(name)) = (folder.parent(), folder.file_name()) else { break };
            if self.remove_folder(around, name).is_err() {
                break;
            }
        }
    }

    fn remove_folder(&self, around: &Path, name: &OsStr) -> std::io::Result<()> {
        if around.as_os_str().is_empty() {
            return self.folder.remove_folder(name);
        }
        self.folder.own_folder(around)?.remove_folder(name)
    }
}
