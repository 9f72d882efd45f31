//! Opens a folder once, and reads and changes the names in it through the descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::open::{IDENTIFY, check_name, identify, regular};
use crate::resolve::{self, Last};
use crate::status::{check_one_name, check_own_file, check_owner, check_private, check_regular};

/// Permissions of files for locks.
const LOCK_MODE: u32 = 0o600;

/// An open folder. The process needs only the permission to search the folder, until it lists or
/// changes the folder's names.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Folder {
    /// Opens a folder to read its content. The user gives the path, so all links in it are
    /// followed.
    ///
    /// # Errors
    /// An error if the path is no folder, or the folder cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let descriptor = openat(CWD, path, IDENTIFY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Folder { descriptor })
    }

    /// Opens a folder to change its content. Links are followed only if they belong to root or to
    /// the effective user.
    ///
    /// # Errors
    /// An error if the path is no folder, the folder cannot be opened, or a link belongs to a user
    /// who is neither root nor the effective user.
    pub fn open_to_change(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Folder { descriptor: resolve::folder(path)? })
    }

    /// Opens a folder as [`Folder::open_to_change`] does. If the folder, or a folder around it,
    /// does not exist, it is created with mode `mode`.
    ///
    /// # Errors
    /// The errors of [`Folder::open_to_change`], or a folder cannot be created.
    pub fn create_to_change(path: &Path, mode: u32) -> io::Result<Self> {
        match Folder::open_to_change(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        // Without a `/` at its end, the path ends in a name.
        let path: &Path = &path.components().collect::<PathBuf>();
        if let Some(around) = path.parent().filter(|around| !around.as_os_str().is_empty()) {
            drop(Folder::create_to_change(around, mode)?);
        }
        let Last { folder: descriptor, name, .. } = resolve::last(path)?;
        let around = Folder { descriptor };
        around.create_folder(&name, mode)?;
        around.folder(Path::new(&name))
    }

    /// Takes over the descriptor of an open folder.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Folder { descriptor }
    }

    /// Status of the folder.
    ///
    /// # Errors
    /// An error if the file system does not answer.
    pub fn status(&self) -> io::Result<Stat> {
        Ok(fstat(&self.descriptor)?)
    }

    /// Opens a folder below this one. The path consists of names, and no link is followed.
    ///
    /// # Errors
    /// An error if there is no such folder, a link is in the path, or the folder may not be
    /// searched.
    pub fn folder(&self, path: &Path) -> io::Result<Folder> {
        let target = identify(self.as_fd(), path)?;
        let descriptor = openat(&target, ".", IDENTIFY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Folder { descriptor })
    }

    /// Opens a folder as [`Folder::folder`] does, if it belongs to the effective user.
    ///
    /// # Errors
    /// The errors of [`Folder::folder`], or the folder belongs to another user.
    pub fn own_folder(&self, path: &Path) -> io::Result<Folder> {
        let folder = self.folder(path)?;
        check_owner(&folder.status()?)?;
        Ok(folder)
    }

    /// Opens a folder as [`Folder::own_folder`] does, if no other user can write to it.
    ///
    /// # Errors
    /// The errors of [`Folder::own_folder`], or other users can write to the folder.
    pub fn private_folder(&self, path: &Path) -> io::Result<Folder> {
        let folder = self.folder(path)?;
        check_private(&folder.status()?)?;
        Ok(folder)
    }

    /// Opens a regular file below this folder for reading. The path consists of names, and no link
    /// is followed.
    ///
    /// # Errors
    /// An error if there is no such file, a link is in the path, the file is not regular, or it may
    /// not be read.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        regular(identify(self.as_fd(), path)?.as_fd(), OFlags::RDONLY)
    }

    /// Opens a file as [`Folder::file`] does, with access `access`, if only the effective user can
    /// write to it.
    ///
    /// # Errors
    /// The errors of [`Folder::file`], or the file belongs to another user, other users can write
    /// to it, or it has another name.
    pub fn own_file(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        let file = identify(self.as_fd(), Path::new(name))?;
        check_own_file(&fstat(&file)?)?;
        regular(file.as_fd(), access)
    }

    /// Creates a file under a name that does not exist yet.
    ///
    /// # Errors
    /// `AlreadyExists` if the name exists, even if it is a link; or the error of creating the file.
    pub fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        check_name(name)?;
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        Ok(openat(self, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Opens a file that is used for locks, and creates it if it does not exist. Other users cannot
    /// open it, because everybody who can open a file can lock it.
    ///
    /// # Errors
    /// An error if the file belongs to another user, is not regular, has another name, or cannot be
    /// opened or created.
    pub fn lock_file(&self, name: &OsStr) -> io::Result<File> {
        loop {
            match identify(self.as_fd(), Path::new(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => return own_lock(result?.as_fd()),
            }
            match self.create_file(name, LOCK_MODE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
    }

    /// Creates a folder. Returns `false` if the name already exists.
    ///
    /// # Errors
    /// An error if the folder cannot be created.
    pub fn create_folder(&self, name: &OsStr, mode: u32) -> io::Result<bool> {
        check_name(name)?;
        match mkdirat(self, name, Mode::from_raw_mode(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Status of the file with a name, or of the link itself if it is a link; `None` if the name
    /// does not exist.
    ///
    /// # Errors
    /// An error if the name cannot be looked up.
    pub fn status_of(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        check_name(name)?;
        match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names in the folder, sorted.
    ///
    /// # Errors
    /// An error if the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.readable()?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if !matches!(&*name, b"." | b"..") {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Renames a file of this folder to a name in another folder. If that name exists, its file is
    /// replaced.
    ///
    /// # Errors
    /// An error if the file cannot be renamed.
    pub fn rename(&self, from: &OsStr, folder: &Folder, to: &OsStr) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        Ok(renameat(self, from, folder, to)?)
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// An error if the name cannot be removed, or belongs to a folder.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        check_name(name)?;
        Ok(unlinkat(self, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// An error if the folder cannot be removed, or is not empty.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        check_name(name)?;
        Ok(unlinkat(self, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes changes of the names in the folder durable (fsync(2)).
    ///
    /// # Errors
    /// The error of the file system.
    pub fn sync(&self) -> io::Result<()> {
        self.readable()?.sync_all()
    }

    /// Removes the permission of other users to write to this folder, which must belong to the
    /// effective user.
    ///
    /// # Errors
    /// An error if the folder belongs to another user, or its mode cannot be changed.
    pub fn make_private(&self) -> io::Result<()> {
        let status = self.status()?;
        check_owner(&status)?;
        if check_private(&status).is_err() {
            let mode = Mode::from_raw_mode(status.st_mode) - (Mode::WGRP | Mode::WOTH);
            rustix::fs::fchmod(self.readable()?, mode)?;
        }
        check_private(&self.status()?)
    }

    /// Opens the folder again, with a descriptor by which its names can be listed and made durable.
    ///
    /// # Errors
    /// An error if the folder may not be read.
    pub fn readable(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(self, ".", flags, Mode::empty())?.into())
    }
}

/// Opens an existing file for locks. If other users may open it, as older versions allowed, this
/// permission is removed.
fn own_lock(descriptor: BorrowedFd<'_>) -> io::Result<File> {
    let status = fstat(descriptor)?;
    check_regular(&status)?;
    check_owner(&status)?;
    check_one_name(&status)?;
    let file = regular(descriptor, OFlags::RDWR)?;
    let mode = Mode::from_raw_mode(LOCK_MODE);
    if Mode::from_raw_mode(status.st_mode) != mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn folders_are_created_as_the_path_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("b", at("dangling")).unwrap();
        for name in ["a/", "a/b/c/", "dangling", "a/./d"] {
            let created = Folder::create_to_change(&at(name), 0o700).unwrap();
            let status = at(name).metadata().unwrap();
            assert_eq!(created.status().unwrap().st_ino, status.ino(), "{name}");
        }
        assert!(at("b").is_dir());
        std::fs::write(at("file"), "").unwrap();
        assert!(Folder::create_to_change(&at("file"), 0o700).is_err());
    }

    #[test]
    fn a_lock_is_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let open = Folder::open(folder.path()).unwrap();
        drop(open.lock_file("lock".as_ref()).unwrap());
        std::fs::write(at("old"), "").unwrap();
        drop(open.lock_file("old".as_ref()).unwrap());
        for name in ["lock", "old"] {
            assert_eq!(at(name).metadata().unwrap().mode() & 0o777, LOCK_MODE, "{name}");
        }
        std::fs::hard_link(at("old"), at("linked")).unwrap();
        symlink("lock", at("link")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["linked", "link", "folder", "..", "a/b", ""] {
            assert!(open.lock_file(name.as_ref()).is_err(), "{name}");
        }
    }
}
