//! Resolves a path that the user gives, and refuses links that another user has put into it.
//!
//! A user may name a path with links, such as `/data -> /mnt/disk`. The owner of a link decides
//! where it leads. So links of root and of the effective user are followed, and links of other
//! users are refused. A path without links leads only to files that were created in the folders of
//! the path.

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

/// Maximum number of links that are followed in a path; the kernel has the same limit.
const MOST_LINKS: usize = 40;

/// The last name of a path, with the folder that contains it.
#[derive(Debug)]
pub(crate) struct Last {
    pub folder: OwnedFd,
    pub name: OsString,
    /// Whether the name is a link in /proc to an open file, which the kernel follows.
    pub is_open_file: bool,
}

/// Resolves a path up to its last name, which need not exist. If the last name is a link, the link
/// is followed too.
///
/// # Errors
/// An error if a folder cannot be opened, a link belongs to a user who is neither root nor the
/// effective user, or the path can only name a folder.
pub(crate) fn last(path: &Path) -> io::Result<Last> {
    let mut walk = Walk::new(path)?;
    let (name, is_open_file) = loop {
        let Some(name) = walk.rest.pop() else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        if !walk.rest.is_empty() || check_name(&name).is_err() {
            walk.step(&name)?;
            continue;
        }
        match openat(&walk.at, &name, IDENTIFY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(last) if is_link(last.as_fd())? => {
                check_link(&name, last.as_fd())?;
                if is_of_proc(last.as_fd())? {
                    break (name, true);
                }
                walk.follow(&name, last.as_fd())?;
            }
            Ok(_) | Err(Errno::NOENT) => break (name, false),
            Err(error) => return Err(error.into()),
        }
    };
    Ok(Last { folder: walk.at, name, is_open_file })
}

/// Opens a regular file of the user for reading. Links of all users are followed, because nothing
/// is written. A file that is not regular is refused before it is opened.
///
/// # Errors
/// An error if there is no such file, or it may not be read.
pub fn open_file(path: &Path) -> io::Result<File> {
    regular(openat(CWD, path, IDENTIFY, Mode::empty())?.as_fd(), OFlags::RDONLY)
}

/// Opens the folder at a path. Links are followed if they belong to root or to the effective user.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    let mut walk = Walk::new(path)?;
    while let Some(name) = walk.rest.pop() {
        walk.step(&name)?;
    }
    Ok(walk.at)
}

/// State of resolving a path: the current folder, and the names that follow.
struct Walk {
    at: OwnedFd,
    /// Names that follow, in reverse order. The name `/` is the root.
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
        // With a `.` after the name, the kernel mounts file systems that are mounted on demand.
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

    /// Replaces a link by the path that it contains.
    fn follow(&mut self, name: &OsStr, link: BorrowedFd<'_>) -> io::Result<()> {
        check_link(name, link)?;
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        // A link in /proc, such as the one to the root of a process, does not lead to the path in
        // its text.
        if is_of_proc(link)? {
            let flags = IDENTIFY | OFlags::DIRECTORY;
            self.at = openat(&self.at, name, flags, Mode::empty())?;
            return Ok(());
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.push(&PathBuf::from(OsString::from_vec(target.into_bytes())));
        Ok(())
    }
}

/// Accepts a link that belongs to root or to the effective user.
fn check_link(name: &OsStr, link: BorrowedFd<'_>) -> io::Result<()> {
    match fstat(link)?.st_uid {
        0 => Ok(()),
        owner if owner == effective_user() => Ok(()),
        owner => {
            let text =
                format!("{name:?} is a symbolic link of user {owner}, which is not followed");
            Err(refused(text))
        }
    }
}

/// Whether a link is in /proc.
fn is_of_proc(link: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(fstatfs(link)?.f_type == PROC_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    #[test]
    fn links_of_other_users_are_refused_and_others_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        symlink("a/b", at("link")).unwrap();
        symlink("../link/../b/./new", at("a/file")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let entry = last(&at("a/file")).unwrap();
        assert_eq!(entry.name, "new");
        assert_eq!(fstat(&entry.folder).unwrap().st_ino, at("a/b").metadata().unwrap().ino());
        assert!(super::folder(&at("link")).is_ok());
        assert!(last(&at("loop")).is_err());
        assert!(last(&at("a/")).is_err() && last(Path::new("/")).is_err());
        assert!(last(Path::new("/proc/self/fd/0")).unwrap().is_open_file);
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can give links to another user");
            return;
        }
        lchown(at("link"), Some(65534), None).unwrap();
        for path in ["link", "link/x", "a/file"] {
            let text = last(&at(path)).unwrap_err().to_string();
            assert!(text.contains("symbolic link of user 65534"), "{path}: {text}");
        }
        assert!(super::folder(&at("link")).is_err());
    }
}
