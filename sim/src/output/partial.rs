//! Creates a file under a hidden name in the folder of its final name. The file gets its final name
//! when it is complete, and is removed when it is not.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use hmtt_paths::StagedFile;

use super::OutputError;

/// Permissions of outputs, before the umask is applied.
const MODE: u32 = 0o666;

/// A file that has a temporary name.
#[derive(Debug)]
pub struct Partial {
    /// `None` if the file is written in place, as a file of another user.
    staged: Option<StagedFile>,
    path: PathBuf,
}

impl Partial {
    /// Creates a file. An existing one is replaced by `finish`, and only with `overwrite`.
    pub fn create(path: &Path, overwrite: bool) -> Result<(Self, File), OutputError> {
        // A device or a pipe cannot be replaced, and no position in it can be written again.
        if fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
            return Err(OutputError::NoFile { path: path.into() });
        }
        let created = StagedFile::create(path, MODE, overwrite);
        let (staged, file) = created.map_err(|error| not_created(path, error))?;
        Ok((Partial { staged, path: path.into() }, file))
    }

    /// The final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to its final path.
    pub fn finish(self) -> Result<(), OutputError> {
        let published = self.staged.map_or(Ok(()), StagedFile::publish);
        published.map_err(|error| not_created(&self.path, error))
    }

    /// Creates the error of a failed operation on this file.
    pub fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> OutputError + use<> {
        let path = self.path.clone();
        move |source| OutputError::File { operation, path, source }
    }
}

fn not_created(path: &Path, source: io::Error) -> OutputError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::AlreadyExists => OutputError::Exists { path },
        _ => OutputError::File { operation: "create", path, source },
    }
}
