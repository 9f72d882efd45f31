//! A directory that is opened once, and what is done below it by name.
//!
//! Invariant: no operation here follows a symbolic link in the last component of a path, and none looks up
//! the directory's own path again. Whoever can plant links or rename directories there cannot redirect what
//! is written: at worst they remove or rename a file, which its [`Identity`] shows.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat,
    unlinkat,
};
use rustix::io::Errno;

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    /// As it was named; empty for the working directory. For messages only.
    path: PathBuf,
    descriptor: File,
}

/// What tells a file from any other that exists at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(status: &Stat) -> Self {
        Identity { device: status.st_dev, inode: status.st_ino }
    }

    /// The identity of an open file.
    pub fn of_file(file: &File) -> io::Result<Self> {
        Ok(Identity::of(&fstat(file)?))
    }
}

/// A name in an open directory. Whether anything has that name is another question.
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
    /// Opens a directory by its path, for the only time. An empty path is the working directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = File::from(openat(CWD, at, flags, Mode::empty())?);
        Ok(Directory { path: path.into(), descriptor })
    }

    /// The directory as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names in the directory.
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

    /// Makes names that were created and removed durable. File systems that cannot are left alone.
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
    /// What a path names, in its directory, which is opened; `None` if it can only name a directory.
    pub fn find(path: &Path) -> Option<io::Result<Self>> {
        let (folder, name) = split(path)?;
        let entry = |directory| Entry { directory: Arc::new(directory), name: name.into() };
        Some(Directory::open(folder).map(entry))
    }

    /// Another name in the same directory.
    pub fn beside(&self, name: OsString) -> Self {
        Entry { directory: Arc::clone(&self.directory), name }
    }

    /// The directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The path, for messages.
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

    /// What kind of file has the name, a link not followed; `None` if nothing has.
    pub fn kind(&self) -> io::Result<Option<FileType>> {
        Ok(self.status()?.map(|status| FileType::from_raw_mode(status.st_mode)))
    }

    /// What file has the name now; `None` if nothing has.
    pub fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(self.status()?.as_ref().map(Identity::of))
    }

    /// Whether a FIFO that was opened by this name was put there by somebody else where everybody may put files.
    /// The same files are refused by Linux under `fs.protected_fifos`, but only when they are created.
    pub fn is_planted(&self, fifo: &File) -> io::Result<bool> {
        self.is_of_stranger(&fstat(fifo)?)
    }

    /// As [`Entry::is_planted`], for what has the name now.
    pub fn seems_planted(&self) -> io::Result<bool> {
        let Some(status) = self.status()? else { return Ok(false) };
        self.is_of_stranger(&status)
    }

    fn is_of_stranger(&self, status: &Stat) -> io::Result<bool> {
        let directory = fstat(&self.directory)?;
        let is_public = Mode::from_raw_mode(directory.st_mode).contains(Mode::WOTH);
        let own = nix::unistd::geteuid().as_raw();
        Ok(is_public && status.st_uid != own && status.st_uid != directory.st_uid)
    }

    /// Opens what has the name, for reading or writing as `access` says; never waits.
    pub fn open(&self, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(File::from(openat(&self.directory, &*self.name, flags, Mode::empty())?))
    }

    /// Creates a file that nothing had the name of before, and locks it as one that is being written.
    ///
    /// `AlreadyExists`: the name is taken, or another process that removes old files was quicker than the
    /// lock.
    pub fn create(&self, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, &*self.name, flags, Mode::from_raw_mode(mode))?;
        let file = File::from(file);
        // Other failures are those of a file system without locks.
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.identity()? != Some(Identity::of_file(&file)?) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(file)
    }

    /// Removes the name.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &*self.name, AtFlags::empty())?)
    }

    /// Removes the name if it is still that of this file.
    pub fn remove_if(&self, known: Identity) -> io::Result<Removal> {
        if self.identity()? != Some(known) {
            return Ok(Removal::Gone);
        }
        match self.remove() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::Gone),
            other => other.map(|()| Removal::Removed),
        }
    }

    /// Removes a regular file unless a capture is writing it; with an identity, only if it is that file.
    pub fn remove_unless_live(&self, known: Option<Identity>) -> io::Result<Removal> {
        let file = match self.open(OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removal::Gone),
            // A link in the place of the file.
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Removal::Gone),
            Err(error) => return Err(error),
        };
        let status = fstat(&file)?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        if !is_file || known.is_some_and(|known| known != Identity::of(&status)) {
            return Ok(Removal::Gone);
        }
        if flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
            return Ok(Removal::Live);
        }
        self.remove_if(Identity::of(&status))
    }
}

/// What became of a file that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The file is removed.
    Removed,
    /// A capture is writing the file: it stays.
    Live,
    /// The name is no longer that of the file.
    Gone,
}
