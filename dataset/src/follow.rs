//! Follows a receiver or `hmtt tag`: adds the files of a capture, or the logs of a program, each as
//! soon as it is finished.
//!
//! Both programs lock the file that they write. A file without a lock is finished, or its writer
//! was killed.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::dataset::{AddOptions, Added, Dataset};
use crate::error::DatasetError;
use crate::partition::{default_run, is_capture_name, is_log_name};

/// Result of adding a file.
#[derive(Debug)]
pub enum Followed {
    /// The file was added, or the data set already had it.
    Added(PathBuf, Added),
    /// The file cannot be added. It is tried again when its size changes.
    Failed(PathBuf, DatasetError),
}

/// A follower of the files of one capture, or of the logs of one program.
#[derive(Debug)]
pub struct Follower {
    dataset: Dataset,
    file: PathBuf,
    /// Sizes in bytes of the files that were added or have failed.
    done: BTreeMap<PathBuf, u64>,
}

impl Follower {
    /// Follows the capture that `hmtt-recv -w FILE` writes, with or without `-b`, or the logs that
    /// `hmtt tag -o FILE.tags` writes, with or without `-f`.
    pub fn new(dataset: Dataset, file: &Path) -> Self {
        Follower { dataset, file: file.to_owned(), done: BTreeMap::new() }
    }

    /// Adds the files that were finished since the last call, in the order of their names. Passes
    /// the result of each to `report`. Returns whether a file is still being written.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn poll(
        &mut self,
        options: &AddOptions<'_>,
        mut report: impl FnMut(Followed),
    ) -> Result<bool, DatasetError> {
        let mut is_writing = false;
        for path in self.files()? {
            let Some(size) = path.metadata().ok().map(|file| file.len()) else { continue };
            // The file was just created, and its writer has not locked it yet.
            if size == 0 {
                is_writing = true;
                continue;
            }
            if self.done.get(&path) == Some(&size) {
                continue;
            }
            match self.dataset.add(&path, options) {
                Err(DatasetError::Unfinished(_)) => {
                    is_writing = true;
                    continue;
                }
                Ok(added) => report(Followed::Added(path.clone(), added)),
                Err(error) => report(Followed::Failed(path.clone(), error)),
            }
            self.done.insert(path, size);
        }
        Ok(is_writing)
    }

    /// All files of the capture or program that exist now.
    fn files(&self) -> Result<Vec<PathBuf>, DatasetError> {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let run = default_run(&self.file);
        let is_of_kind = if is_log_name(&self.file) { is_log_name } else { is_capture_name };
        let is_of_series = |path: &PathBuf| is_of_kind(path) && default_run(path) == run;
        let folder = folder.unwrap_or(Path::new("."));
        let entries = match folder.read_dir() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries,
        };
        let files = entries
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
        let mut files: Vec<PathBuf> =
            files.map_err(|error| DatasetError::file("read", folder, error))?;
        files.retain(is_of_series);
        files.sort();
        Ok(files)
    }
}
