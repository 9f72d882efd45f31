//! A file in the making: written beside its final name, renamed when it is whole, removed when it is
//! not.

use std::fs;
use std::path::{Path, PathBuf};

use super::OutputError;

/// A file that does not have its name yet.
#[derive(Debug)]
pub struct Partial {
    partial: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

impl Partial {
    /// Chooses a name. An existing file is replaced at the end, and only with `overwrite`.
    pub fn new(path: &Path, overwrite: bool) -> Result<Self, OutputError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let partial = path.with_file_name(name);
        let file = Partial { partial, path: path.into(), overwrite };
        file.refuse_existing()?;
        Ok(file)
    }

    /// Where to write.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// The name it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<(), OutputError> {
        self.refuse_existing()?;
        fs::rename(&self.partial, &self.path).map_err(self.failed("create"))
    }

    /// An operation on this file failed.
    pub fn failed(
        &self,
        operation: &'static str,
    ) -> impl FnOnce(std::io::Error) -> OutputError + use<> {
        let path = self.path.clone();
        move |source| OutputError::File { operation, path, source }
    }

    fn refuse_existing(&self) -> Result<(), OutputError> {
        match fs::metadata(&self.path) {
            // Renaming over a device or a directory would replace it, not write to it.
            Ok(there) if !there.is_file() => Err(OutputError::NoFile { path: self.path.clone() }),
            Ok(_) if !self.overwrite => Err(OutputError::Exists { path: self.path.clone() }),
            _ => Ok(()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a finished file there is nothing to remove; else there is nobody left to tell.
        let _ = fs::remove_file(&self.partial);
    }
}
