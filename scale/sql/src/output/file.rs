//! Writes a file that appears whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;

/// Permissions of outputs, before the umask is applied.
const MODE: u32 = 0o666;

/// A file that is written under a temporary name in the same folder. If it is dropped before
/// [`StagedFile::publish`], it is removed.
pub struct StagedFile {
    /// `None` if the file is written in place: it is a pipe, a device, or of another user.
    staged: Option<hmtt_paths::StagedFile>,
    file: File,
}

impl StagedFile {
    /// Creates a file. Unless `overwrite`, no file may have its name.
    ///
    /// # Errors
    /// A file of this name exists, or the file cannot be created.
    pub fn create(path: &Path, overwrite: bool) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::new(ErrorKind::IsADirectory, "is a folder; name a file in it"));
        }
        let created = hmtt_paths::StagedFile::create(path, MODE, overwrite);
        let (staged, file) = created.map_err(explained)?;
        Ok(StagedFile { staged, file })
    }

    /// Returns a writer to the file.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub fn writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(1 << 20, self.file.try_clone()?))
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written or renamed, or another file has got its name.
    pub fn publish(self) -> io::Result<()> {
        let Some(staged) = self.staged else { return Ok(()) };
        self.file.sync_all()?;
        staged.publish().map_err(explained)
    }
}

fn explained(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::AlreadyExists {
        return io::Error::new(error.kind(), "exists; give --force to overwrite it");
    }
    error
}
