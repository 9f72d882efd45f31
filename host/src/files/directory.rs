//! Opens a directory once, and creates, opens and removes files in it by name.
//!
//! Invariant: no operation follows a symbolic link in the last component of a path, and none
//! resolves the directory's path again. A user who can create links or rename directories there
//! cannot redirect the written bytes. Such a user can remove or rename a file, which its
//! [`Identity`] shows.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmtt_paths::Folder;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat,
    unlinkat,
};
use rustix::io::Errno;

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    /// Path that the user gave; empty for the working directory. Used in messages only.
    path: PathBuf,
    descriptor: File,
}

/// Identifies a file among all files that exist at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn from_status(status: &Stat) -> Self {
        Identity { device: status.st_dev, inode: status.st_ino }
    }

    /// Reads the identity of an open file.
    ///
    /// # Errors
    /// If `fstat` fails.
    pub fn from_file(file: &File) -> io::Result<Self> {
        Ok(Identity::from_status(&fstat(file)?))
    }
}

/// A name in an open directory. A file of that name may or may not exist.
#[derive(Clone, Debug)]
pub struct Entry {
    directory: Arc<Directory>,
    name: OsString,
}

/// Splits a path at its last `/`; `None` if it can only name a directory.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let (folder, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        None => (&b""[..], bytes),
        Some(0) => bytes.split_at(1),
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
    };
    let names_a_file = !matches!(name, b"" | b"." | b"..");
    names_a_file.then(|| (Path::new(OsStr::from_bytes(folder)), OsStr::from_bytes(name)))
}

impl Directory {
    /// Opens a directory by its path. An empty path is the working directory. Links in the path are
    /// followed if they belong to root or to the effective user.
    ///
    /// # Errors
    /// If it is not a directory, cannot be opened, or is behind a link of another user.
    pub fn open(path: &Path) -> io::Result<Self> {
        let descriptor = Folder::open_to_change(path)?.readable()?;
        Ok(Directory { path: path.into(), descriptor })
    }

    /// Path that the user gave; empty for the working directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all entries in the directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut listing = Dir::new(self.descriptor.try_clone()?)?;
        // The clone shares its position with every earlier listing.
        listing.rewind();
        let mut names = Vec::new();
        for entry in listing {
            names.push(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned());
        }
        Ok(names)
    }

    /// Makes created and removed names durable (`fsync`). File systems that do not support it are
    /// ignored.
    ///
    /// # Errors
    /// If `fsync` fails.
    pub fn sync(&self) -> io::Result<()> {
        match self.descriptor.sync_all() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Entry {
    /// Opens the directory of a path, and returns the entry for the last component. `None` if the
    /// path can only name a directory.
    pub fn find(path: &Path) -> Option<io::Result<Self>> {
        let (folder, name) = split(path)?;
        let entry = |directory| Entry { directory: Arc::new(directory), name: name.into() };
        Some(Directory::open(folder).map(entry))
    }

    /// Another name in the same directory.
    pub fn sibling(&self, name: OsString) -> Self {
        Entry { directory: Arc::clone(&self.directory), name }
    }

    /// Directory of the entry.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Name of the entry.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Path of the entry, for messages.
    pub fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    fn status(&self) -> io::Result<Option<Stat>> {
        match statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Type of the file that has the name; a link is not followed. `None` if no file has it.
    ///
    /// # Errors
    /// If the name cannot be looked up.
    pub fn kind(&self) -> io::Result<Option<FileType>> {
        Ok(self.status()?.map(|status| FileType::from_raw_mode(status.st_mode)))
    }

    /// Identity of the file that has the name now; `None` if no file has it.
    ///
    /// # Errors
    /// If the name cannot be looked up.
    pub fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(self.status()?.as_ref().map(Identity::from_status))
    }

    /// Whether a FIFO that was opened by this name belongs to another user, in a directory that
    /// everybody may write to. Linux's `fs.protected_fifos` has the same condition, but applies
    /// only to opens with `O_CREAT`.
    ///
    /// # Errors
    /// If `fstat` fails.
    pub fn is_foreign(&self, fifo: &File) -> io::Result<bool> {
        self.is_of_other_user(&fstat(fifo)?)
    }

    /// As [`Entry::is_foreign`], for the file that has the name now.
    ///
    /// # Errors
    /// If the name cannot be looked up.
    pub fn names_foreign(&self) -> io::Result<bool> {
        let Some(status) = self.status()? else { return Ok(false) };
        self.is_of_other_user(&status)
    }

    fn is_of_other_user(&self, status: &Stat) -> io::Result<bool> {
        let directory = fstat(&self.directory)?;
        let is_public = Mode::from_raw_mode(directory.st_mode).contains(Mode::WOTH);
        let own = nix::unistd::geteuid().as_raw();
        Ok(is_public && status.st_uid != own && status.st_uid != directory.st_uid)
    }

    /// Opens the file that has the name, with the access mode `access`; does not wait for the peer
    /// of a FIFO.
    ///
    /// # Errors
    /// If it cannot be opened, or is a symbolic link.
    pub fn open(&self, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(File::from(openat(&self.directory, &*self.name, flags, Mode::empty())?))
    }

    /// Creates a file under a name that no file had, and locks it as being written.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, or if another capture removed the file before it was
    /// locked.
    pub fn create(&self, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, &*self.name, flags, Mode::from_raw_mode(mode))?;
        let file = File::from(file);
        // Any other failure means that the file system has no locks.
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.identity()? != Some(Identity::from_file(&file)?) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(file)
    }

    /// Removes the name from the directory.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &*self.name, AtFlags::empty())?)
    }

    /// Removes the name if it still names the file `known`.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_if(&self, known: Identity) -> io::Result<Removal> {
        if self.identity()? != Some(known) {
            return Ok(Removal::Gone);
        }
        match self.remove() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::Gone),
            other => other.map(|()| Removal::Removed),
        }
    }

    /// Removes a regular file unless a capture is writing it. With an identity, removes only that
    /// file.
    ///
    /// # Errors
    /// If the file cannot be opened or removed.
    pub fn remove_unless_live(&self, known: Option<Identity>) -> io::Result<Removal> {
        let file = match self.open(OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removal::Gone),
            // A symbolic link has replaced the file.
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Removal::Gone),
            Err(error) => return Err(error),
        };
        let status = fstat(&file)?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        if !is_file || known.is_some_and(|known| known != Identity::from_status(&status)) {
            return Ok(Removal::Gone);
        }
        if flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
            return Ok(Removal::Live);
        }
        self.remove_if(Identity::from_status(&status))
    }
}

/// Result of removing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The file is removed.
    Removed,
    /// A capture is writing the file: it stays.
    Live,
    /// The name no longer names the file, or no file at all.
    Gone,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_link_of_another_user_to_the_directory_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(folder.path(), &link).unwrap();
        assert!(Directory::open(&link).is_ok());
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can give links to another user");
            return;
        }
        lchown(&link, Some(65534), None).unwrap();
        let error = Directory::open(&link).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
