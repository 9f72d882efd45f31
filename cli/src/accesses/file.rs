//! Writes a file whole or not at all.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::output::{MODE, is_same_file};

/// Refuses a directory. Refuses a file that exists, unless `force` allows to overwrite it.
pub fn check(path: &Path, force: bool) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) if path.is_dir() => bail!("{} is a directory; name a file in it", path.display()),
        Ok(_) if !force => bail!("{} exists; give -f to overwrite it", path.display()),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Whether two output paths name one file: through links, or by equal names of a file that does not
/// exist yet.
fn is_one(first: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    is_same_file(first, other) || place(first).is_some_and(|at| place(other) == Some(at))
}

/// Refuses an output that is the same file as an input or as another output.
pub fn check_distinct<'a>(
    outputs: &[&Path],
    inputs: impl Iterator<Item = &'a Path> + Clone,
) -> Result<()> {
    for (at, output) in outputs.iter().enumerate() {
        if inputs.clone().any(|input| is_same_file(input, output)) {
            bail!("{} is also an input; choose another output", output.display());
        }
        if outputs[..at].iter().any(|other| is_one(other, output)) {
            bail!("{} is named as two outputs; choose another one", output.display());
        }
    }
    Ok(())
}

/// Creates a new hidden file in the folder of `path`. It gets the name of `path` when it is
/// complete.
fn beside(path: &Path) -> Result<(PathBuf, File)> {
    let name = path.file_name().context("the file has no name")?;
    for number in 0..100 {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}", std::process::id()));
        let beside = path.with_file_name(hidden);
        match hmtt_paths::create(&beside, MODE) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened.with_context(|| format!("cannot create {}", beside.display()))?;
                return Ok((beside, file));
            }
        }
    }
    bail!("cannot create a file beside {}", path.display())
}

/// Writes a file. If another file has appeared under its name, that file stays, unless `force` is
/// set. With `force`, a pipe, a device or a link is not replaced: the bytes are written to it, or
/// to the file behind the link. A pipe or link of another user is an error.
///
/// # Errors
/// The file could not be written. No half-written file is left, except behind a link.
pub fn write(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if path.symlink_metadata().is_ok_and(|found| force && !found.is_file()) {
        let mut file = hmtt_paths::create_or_replace(path, MODE).with_context(failed)?;
        return file.write_all(bytes).with_context(failed);
    }
    let (beside, mut file) = beside(path)?;
    let written = file.write_all(bytes).and_then(|()| {
        if force {
            return fs::rename(&beside, path);
        }
        // Unlike a rename, a hard link never replaces an existing file.
        fs::hard_link(&beside, path).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Err(error),
            _ if path.symlink_metadata().is_ok() => Err(error),
            // This file system has no hard links.
            _ => fs::rename(&beside, path),
        })
    });
    // After a rename the hidden name does not exist any more.
    let _ = fs::remove_file(&beside);
    written.with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_replaces_nothing_unasked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        write(&path, b"one", false).unwrap();
        assert!(write(&path, b"other", false).is_err() && check(&path, false).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, b"other", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(check(directory.path(), true).is_err());
    }

    #[test]
    fn a_link_is_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let (link, page) = (directory.path().join("link"), directory.path().join("page"));
        std::os::unix::fs::symlink(&page, &link).unwrap();
        assert!(check(&link, false).is_err());
        write(&link, b"one", true).unwrap();
        assert_eq!(fs::read(&page).unwrap(), b"one");
        assert!(link.symlink_metadata().unwrap().is_symlink());
    }
}
