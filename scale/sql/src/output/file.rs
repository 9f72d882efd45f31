//! Writes a file that appears whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that is written under a temporary name in the same folder. If it is dropped before
/// [`StagedFile::publish`], it is removed.
pub struct StagedFile {
    path: PathBuf,
    overwrite: bool,
    file: NamedTempFile,
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
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new().prefix(".hmtt-sql-").tempfile_in(folder)?;
        Ok(StagedFile { path: path.to_owned(), overwrite, file })
    }

    /// Returns a writer to the file.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub fn writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(1 << 20, self.file.as_file().try_clone()?))
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written or renamed, or another file has got its name.
    pub fn publish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        // The file gets the permissions of any other file that a program creates.
        set_usual_mode(self.file.as_file())?;
        if self.overwrite {
            self.file.persist(&self.path)?;
            return Ok(());
        }
        match self.file.persist_noclobber(&self.path) {
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Err(exists()),
            Err(error) => Err(error.error),
            Ok(_) => Ok(()),
        }
    }
}

fn exists() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "exists; give --force to overwrite it")
}

/// Sets the permissions by the umask. Temporary files can be read by their user only.
fn set_usual_mode(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mask = umask();
    file.set_permissions(std::fs::Permissions::from_mode(0o666 & !mask))
}

/// The umask of the process, as Linux states it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}
