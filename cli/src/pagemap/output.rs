//! Writes maps and what they are converted to: a file has its name once it is of use, and until
//! then the old one stays.
//!
//! A regular file is written beside its name and renamed, and only its owner may read it: frame
//! numbers are what the kernel hides from others. Pipes, devices and inherited descriptors are
//! written as they are, and symbolic links are not followed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hmtt_host::files::Entry;
use hmtt_host::receive::descriptor;
use rustix::fs::{CWD, FileType, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::tag::files::{Created, NewFiles};

/// Names beside the output that are tried.
const NAMES: u32 = 100;

/// An output that does not have its name yet; without it, the file is removed.
pub struct Unnamed {
    path: PathBuf,
    overwrite: bool,
    /// The name beside it; `None` once the file has its own name, and for what is no regular file.
    beside: Option<(PathBuf, NewFiles)>,
}

/// Opens an output. `option` is the one that allows to overwrite a file, for messages.
///
/// # Errors
/// The file exists and must not be overwritten, is being written, or cannot be created.
pub fn open(path: &Path, overwrite: bool, option: &str) -> Result<(File, Unnamed)> {
    let unnamed = |beside| Unnamed { path: path.into(), overwrite, beside };
    if !is_regular(path) {
        return Ok((Created::new(path, overwrite)?.file, unnamed(None)));
    }
    let exists = path.symlink_metadata().is_ok();
    ensure!(overwrite || !exists, "{} exists; give {option} to overwrite it", path.display());
    ensure!(!exists || !is_live(path), "another hmtt is writing {}", path.display());
    for number in 0..NAMES {
        let beside = beside(path, number)?;
        if beside.symlink_metadata().is_ok() {
            continue;
        }
        let created = Created::new(&beside, false)?;
        let new = NewFiles::new(created.removable().into_iter().collect());
        return Ok((created.file, unnamed(Some((beside, new)))));
    }
    bail!("cannot create a file beside {}", path.display())
}

impl Unnamed {
    /// Gives the file its name, if it does not have it yet.
    ///
    /// # Errors
    /// The file cannot be renamed, or another one has appeared under the name and must not be
    /// overwritten.
    pub fn name(&mut self) -> Result<()> {
        let Some((beside, new)) = self.beside.take() else { return Ok(()) };
        let path = &self.path;
        let renamed = if self.overwrite {
            fs::rename(&beside, path)
        } else {
            match renameat_with(CWD, &beside, CWD, path, RenameFlags::NOREPLACE) {
                // A file system that cannot check that itself.
                Err(Errno::INVAL) if path.symlink_metadata().is_err() => fs::rename(&beside, path),
                other => other.map_err(Into::into),
            }
        };
        renamed.with_context(|| format!("cannot write {}", path.display()))?;
        new.keep();
        Ok(())
    }
}

/// Whether a path names a regular file, or none.
fn is_regular(path: &Path) -> bool {
    if path.is_absolute() && descriptor(path).is_some() {
        return false;
    }
    let Some(Ok(entry)) = Entry::find(path) else { return false };
    matches!(entry.kind(), Ok(None | Some(FileType::RegularFile)))
}

/// Whether another process is writing a file. One that cannot be opened is not known to be written.
fn is_live(path: &Path) -> bool {
    let Some(Ok(entry)) = Entry::find(path) else { return false };
    let Ok(file) = entry.open(OFlags::RDONLY) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// A hidden name in the same directory.
fn beside(path: &Path, number: u32) -> Result<PathBuf> {
    let name = path.file_name().context("the output has no name")?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{number}", std::process::id()));
    Ok(path.with_file_name(hidden))
}
