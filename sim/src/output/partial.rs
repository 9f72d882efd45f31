//! Writes a file under a temporary name beside its final one. The file is renamed when it is
//! complete and removed when it is not.

use std::fs;
use std::path::{Path, PathBuf};

use super::OutputError;

/// A file that has a temporary name.
#[derive(Debug)]
pub struct Partial {
    partial: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

impl Partial {
    /// Chooses the temporary name. An existing file is replaced by `finish`, and only with
    /// `overwrite`.
    pub fn new(path: &Path, overwrite: bool) -> Result<Self, OutputError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let partial = path.with_file_name(name);
        let file = Partial { partial, path: path.into(), overwrite };
        file.refuse_existing()?;
        Ok(file)
    }

    /// The temporary path.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// The final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to its final path.
    pub fn finish(self) -> Result<(), OutputError> {
        self.refuse_existing()?;
        fs::rename(&self.partial, &self.path).map_err(self.failed("create"))
    }

    /// Creates the error of a failed operation on this file.
    pub fn failed(
        &self,
        operation: &'static str,
    ) -> impl FnOnce(std::io::Error) -> OutputError + use<> {
        let path = self.path.clone();
        move |source| OutputError::File { operation, path, source }
    }

    fn refuse_existing(&self) -> Result<(), OutputError> {
        match fs::metadata(&self.path) {
            // Renaming over a device or a directory would replace it instead of writing to it.
            Ok(there) if !there.is_file() => Err(OutputError::NoFile { path: self.path.clone() }),
            Ok(_) if !self.overwrite => Err(OutputError::Exists { path: self.path.clone() }),
            _ => Ok(()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `finish` there is nothing to remove. Otherwise an error cannot be reported from
        // `drop`.
        let _ = fs::remove_file(&self.partial);
    }
}
