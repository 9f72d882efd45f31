//! Resolves a path that the user gives, and refuses what another user has put into it.
//!
//! A user may name a path through links, such as `/data -> /mnt/disk`. A link leads where its owner wants: links of root and of
//! the effective user are followed, those of others are refused. Without them, a path leads only through folders to what was
//! created there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat, openat2, readlinkat,
};
use rustix::io::Errno;

use crate::open::{IDENTIFY, check_name, is_link, regular};
use crate::status::{effective_user, refused};

/// Most links of a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// The folder of a path, and the last name in it, which may not exist and is no link: links that it names are followed too.
///
/// # Errors
/// A folder cannot be opened, a link belongs to a user who is neither root nor the effective user, or the path can only name a
/// folder.
pub(crate) fn last(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let mut walk = Walk::new(path)?;
    let name = loop {
        let Some(name) = walk.rest.pop() else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        if !walk.rest.is_empty() || check_name(&name).is_err() {
            walk.step(&name)?;
            continue;
        }
        match openat(&walk.at, &name, IDENTIFY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(last) if is_link(last.as_fd())? => walk.follow(&name, last.as_fd())?,
            Ok(_) | Err(Errno::NOENT) => break name,
            Err(error) => return Err(error.into()),
        }
    };
    Ok((walk.at, name))
}

/// Opens a regular file of the user for reading, also through links of any user: nothing is written. What is no regular file is
/// refused before it is opened.
///
/// # Errors
/// There is none, or it may not be read.
pub fn open_file(path: &Path) -> io::Result<File> {
    regular(openat(CWD, path, IDENTIFY, Mode::empty())?.as_fd(), OFlags::RDONLY)
}

/// Opens a folder of a path, with the same rule for links.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    let mut walk = Walk::new(path)?;
    while let Some(name) = walk.rest.pop() {
        walk.step(&name)?;
    }
    Ok(walk.at)
}

/// A folder on the way, and what follows.
struct Walk {
    at: OwnedFd,
    /// Names that follow, the next one last. The name `/` is the root.
    rest: Vec<OsString>,
    links: usize,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let at = openat(CWD, ".", IDENTIFY | OFlags::DIRECTORY, Mode::empty())?;
        let mut walk = Walk { at, rest: Vec::new(), links: 0 };
        walk.push(path);
        Ok(walk)
    }

    fn push(&mut self, path: &Path) {
        let names = path.components().map(|name| name.as_os_str().to_owned());
        let at = self.rest.len();
        self.rest.extend(names);
        // A path that ends in `/` names a folder.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            self.rest.push(".".into());
        }
        self.rest[at..].reverse();
    }

    /// Enters a folder, or follows a link to it.
    fn step(&mut self, name: &OsStr) -> io::Result<()> {
        let flags = IDENTIFY | OFlags::DIRECTORY;
        // The end makes the kernel mount what is mounted when it is used.
        let inside = Path::new(name).join(".");
        match openat2(&self.at, inside, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(next) => {
                self.at = next;
                return Ok(());
            }
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let next = openat(&self.at, name, IDENTIFY | OFlags::NOFOLLOW, Mode::empty())?;
        if is_link(next.as_fd())? {
            return self.follow(name, next.as_fd());
        }
        self.at = openat(&next, ".", flags, Mode::empty())?;
        Ok(())
    }

    /// Replaces a link by what it names.
    fn follow(&mut self, name: &OsStr, link: BorrowedFd<'_>) -> io::Result<()> {
        let owner = fstat(link)?.st_uid;
        if owner != 0 && owner != effective_user() {
            let text =
                format!("{name:?} is a symbolic link of user {owner}, which is not followed");
            return Err(refused(text));
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        // The text of a link in /proc, such as that of a process's root, does not lead where the link leads.
        if fstatfs(link)?.f_type == PROC_SUPER_MAGIC {
            let flags = IDENTIFY | OFlags::DIRECTORY;
            self.at = openat(&self.at, name, flags, Mode::empty())?;
            return Ok(());
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.push(&PathBuf::from(OsString::from_vec(target.into_bytes())));
        Ok(())
    }
}
