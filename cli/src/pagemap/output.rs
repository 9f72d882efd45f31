//! Writes maps and their conversions. A new file gets its name only when it is usable; until then
//! an existing file stays.
//!
//! A regular file is written under a hidden name beside its own name, and then renamed. Only its
//! owner may read it, because the kernel hides frame numbers from other users. Pipes, devices and
//! inherited descriptors are written directly. Symbolic links are not followed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hmtt_host::files::Entry;
use hmtt_host::receive::descriptor;
use rustix::fs::{CWD, FileType, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::tag::files::{Created, NewFiles};

/// Maximum number of hidden names that are tried.
const NAMES: u32 = 100;

/// An output that does not have its name yet. If it is dropped before [`Unnamed::name`], the file
/// is removed.
pub struct Unnamed {
    path: PathBuf,
    overwrite: bool,
    /// The hidden name. `None` once the file has its own name, and for outputs that are no regular
    /// files.
    beside: Option<(PathBuf, NewFiles)>,
}

/// Opens an output. `option`: the option that allows to overwrite a file, for messages.
///
/// # Errors
/// The file exists and may not be overwritten, another process is writing it, or it cannot be
/// created.
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
    /// Gives the file its name. Does nothing if the file has its name already.
    ///
    /// # Errors
    /// The file cannot be renamed. Or another file has appeared under the name, and may not be
    /// overwritten.
    pub fn name(&mut self) -> Result<()> {
        let Some((beside, new)) = self.beside.take() else { return Ok(()) };
        let path = &self.path;
        let renamed = if self.overwrite {
            fs::rename(&beside, path)
        } else {
            match renameat_with(CWD, &beside, CWD, path, RenameFlags::NOREPLACE) {
                // This file system does not support the flag, so the name is checked before.
                Err(Errno::INVAL) if path.symlink_metadata().is_err() => fs::rename(&beside, path),
                other => other.map_err(Into::into),
            }
        };
        renamed.with_context(|| format!("cannot write {}", path.display()))?;
        new.keep();
        Ok(())
    }
}

/// Whether a path names a regular file or does not exist.
fn is_regular(path: &Path) -> bool {
    if path.is_absolute() && descriptor(path).is_some() {
        return false;
    }
    let Some(Ok(entry)) = Entry::find(path) else { return false };
    matches!(entry.kind(), Ok(None | Some(FileType::RegularFile)))
}

/// Whether another process is writing a file, and so has locked the file. False if the file cannot
/// be opened.
fn is_live(path: &Path) -> bool {
    let Some(Ok(entry)) = Entry::find(path) else { return false };
    let Ok(file) = entry.open(OFlags::RDONLY) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// A hidden name in the directory of the output. `number`: distinguishes the names that are tried.
fn beside(path: &Path, number: u32) -> Result<PathBuf> {
    let name = path.file_name().context("the output has no name")?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{number}", std::process::id()));
    Ok(path.with_file_name(hidden))
}
