//! Creates outputs that get their names only when they are complete.
//!
//! The file is written under a hidden name in the folder of its final name. So one call of
//! rename(2) gives it the final name. Some outputs are written in place: outputs that are not
//! regular files (a pipe, a device, an open file below `/proc`), files of other users, and files in
//! a folder that refuses new files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FileType, Mode, RenameFlags, Stat, fchmod, renameat_with};
use rustix::io::Errno;

use crate::folder::Folder;
use crate::output::{create_or_replace, divided};
use crate::resolve::{Last, last};
use crate::status::effective_user;

/// Maximum number of temporary names that are tried.
const MOST_NAMES: u32 = 1000;
/// Bits of the mode that a file takes over from the file that it replaces.
const PERMISSIONS: u32 = 0o777;

/// An output under its temporary name. It is removed if it is dropped before it is published.
#[derive(Debug)]
pub struct StagedFile {
    folder: Folder,
    temporary: OsString,
    name: OsString,
    replaces: bool,
    is_published: bool,
}

impl StagedFile {
    /// Creates a file that does not exist yet, or, with `replaces`, a file that may exist. Links in
    /// the path are followed as [`crate::create`] and [`create_or_replace`] do. If no
    /// [`StagedFile`] is returned, the file is written in place.
    ///
    /// # Errors
    /// `AlreadyExists` if the name exists and `replaces` is not set; or the error of creating the
    /// file.
    pub fn create(
        path: &Path,
        mode: u32,
        replaces: bool,
    ) -> io::Result<(Option<StagedFile>, File)> {
        let (parent, name) = divided(path)?;
        let (folder, name) = if replaces {
            let Last { folder, name, is_open_file } = last(path)?;
            if is_open_file {
                return Ok((None, create_or_replace(path, mode)?));
            }
            (Folder::from_descriptor(folder), name)
        } else {
            (Folder::open_to_change(parent)?, name.to_owned())
        };
        let status = folder.status_of(&name)?;
        match &status {
            Some(_) if !replaces => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(status) if !is_own_regular(status) => {
                return Ok((None, create_or_replace(path, mode)?));
            }
            _ => {}
        }
        let (temporary, file) = match create_hidden(&folder, mode) {
            Err(error) if status.is_some() && is_refusal(&error) => {
                return Ok((None, create_or_replace(path, mode)?));
            }
            created => created?,
        };
        let staged = StagedFile { folder, temporary, name, replaces, is_published: false };
        if let Some(status) = status {
            // A file that only its owner may read stays such a file.
            fchmod(&file, Mode::from_raw_mode(status.st_mode & PERMISSIONS))?;
        }
        Ok((Some(staged), file))
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// An error if the file cannot be renamed, or if another file has got the name meanwhile and
    /// `replaces` was not set.
    pub fn publish(self) -> io::Result<()> {
        let name = self.name.clone();
        self.rename(&name)
    }

    /// Gives an incomplete file its final name with `suffix` after it, and returns that name.
    ///
    /// # Errors
    /// An error if the file cannot be renamed, or if another file has the name and `replaces` was
    /// not set.
    pub fn publish_with_suffix(self, suffix: &str) -> io::Result<OsString> {
        let mut name = self.name.clone();
        name.push(suffix);
        self.rename(&name)?;
        Ok(name)
    }

    fn rename(mut self, name: &OsStr) -> io::Result<()> {
        if self.replaces {
            self.folder.rename(&self.temporary, &self.folder, name)?;
        } else {
            self.rename_to_free(name)?;
        }
        self.is_published = true;
        Ok(())
    }

    fn rename_to_free(&self, name: &OsStr) -> io::Result<()> {
        let (folder, flags) = (&self.folder, RenameFlags::NOREPLACE);
        match renameat_with(folder, &self.temporary, folder, name, flags) {
            // The file system does not support NOREPLACE. The name was free a moment ago.
            Err(Errno::INVAL | Errno::NOSYS) if self.folder.status_of(name)?.is_none() => {
                self.folder.rename(&self.temporary, folder, name)
            }
            Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = self.folder.remove_file(&self.temporary);
        }
    }
}

fn create_hidden(folder: &Folder, mode: u32) -> io::Result<(OsString, File)> {
    for number in 0..MOST_NAMES {
        let name = OsString::from(format!(".hmtt-{}-{number}.part", std::process::id()));
        match folder.create_file(&name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((name, created?)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn is_own_regular(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
        && status.st_uid == effective_user()
}

/// Whether an error says that a folder refuses new files, so that an existing file can only be
/// written in place.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_whole_and_is_removed_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let create = |replaces| StagedFile::create(&path, 0o600, replaces);
        let (staged, mut file) = create(false).unwrap();
        file.write_all(b"whole").unwrap();
        assert!(!path.exists());
        staged.unwrap().publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(create(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        drop(create(true).unwrap());
        assert_eq!(
            (names(folder.path()), fs::read(&path).unwrap()),
            (vec!["out".into()], b"whole".to_vec())
        );
        let (staged, mut file) = create(true).unwrap();
        file.write_all(b"a part").unwrap();
        assert_eq!(staged.unwrap().publish_with_suffix(".partial").unwrap(), "out.partial");
        assert_eq!(names(folder.path()), ["out", "out.partial"]);
        create(true).unwrap().0.unwrap().publish().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_name_that_is_taken_meanwhile_is_not_replaced_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let (staged, _file) = StagedFile::create(&path, 0o600, false).unwrap();
        fs::write(&path, "other").unwrap();
        assert_eq!(staged.unwrap().publish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            (names(folder.path()), fs::read(&path).unwrap()),
            (vec!["out".into()], b"other".to_vec())
        );
    }

    #[test]
    fn links_are_kept_and_what_is_no_file_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("target", at("link")).unwrap();
        StagedFile::create(&at("link"), 0o600, true).unwrap().0.unwrap().publish().unwrap();
        assert!(at("target").is_file() && at("link").is_symlink());
        assert!(StagedFile::create(Path::new("/dev/null"), 0o600, true).unwrap().0.is_none());
        assert!(StagedFile::create(folder.path(), 0o600, true).is_err());
        assert!(StagedFile::create(&at("missing/out"), 0o600, true).is_err());
    }
}
