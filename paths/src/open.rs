//! Opens paths below a descriptor without following links.
//!
//! `openat2` resolves the whole path. If a kernel, or the seccomp filter of a container, does not
//! support it, the components are opened one by one, each without following a link. This gives the
//! same descriptor, or an error.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;

use crate::status::{check_regular, link};

/// Flags of a descriptor that only identifies a file.
pub const IDENTIFY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Resolution below the descriptor and without links.
const BELOW: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Returns a descriptor of the file or folder at a path of names below a folder. A link in the path
/// is an error, even at its end.
pub fn identify(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    check_names(path)?;
    match openat2(folder, path, IDENTIFY, Mode::empty(), BELOW) {
        Err(Errno::NOSYS | Errno::PERM) => walk(folder, path),
        Err(Errno::LOOP) => Err(link()),
        opened => Ok(opened?),
    }
}

/// Does the same as [`identify`], but component by component.
fn walk(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let mut at: Option<OwnedFd> = None;
    for component in path.components() {
        let from = at.as_ref().map_or(folder, AsFd::as_fd);
        if at.is_some() && is_link(from)? {
            return Err(link());
        }
        let flags = IDENTIFY | OFlags::NOFOLLOW;
        at = Some(openat(from, component.as_os_str(), flags, Mode::empty())?);
    }
    let at = at.ok_or(ErrorKind::InvalidInput)?;
    if is_link(at.as_fd())? { Err(link()) } else { Ok(at) }
}

/// Whether a descriptor identifies a symbolic link.
pub fn is_link(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(descriptor)?.st_mode) == FileType::Symlink)
}

/// Opens the regular file that a descriptor identifies. The type of the file is checked before it
/// is opened.
pub fn regular(descriptor: BorrowedFd<'_>, access: OFlags) -> io::Result<File> {
    check_regular(&fstat(descriptor)?)?;
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        // The file exists, because the descriptor identifies it. So /proc is missing.
        Err(Errno::NOENT) => {
            Err(io::Error::other("cannot be opened without /proc, which is not mounted"))
        }
        opened => Ok(opened?.into()),
    }
}

/// Opens an open regular file again for reading, with its own file position.
///
/// # Errors
/// An error if the file may not be read.
pub fn reopen(file: &File) -> io::Result<File> {
    regular(file.as_fd(), OFlags::RDONLY)
}

/// Accepts paths that consist only of names: not empty, not absolute, without `.` and `..`.
fn check_names(path: &Path) -> io::Result<()> {
    let mut components = path.components();
    let is_of_names = components.clone().next().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)));
    if is_of_names { Ok(()) } else { Err(not_below(path.as_os_str())) }
}

/// Accepts a name: not empty, without `/`, neither `.` nor `..`.
pub fn check_name(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_bytes();
    let is_name = !matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&b'/');
    if is_name { Ok(()) } else { Err(not_below(name)) }
}

fn not_below(path: &OsStr) -> io::Error {
    let text = format!("{path:?} is no name of a file in a folder");
    io::Error::new(ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn components_are_followed_as_openat2_follows_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/file"), "text").unwrap();
        symlink("a", at("link")).unwrap();
        symlink("b", at("a/link")).unwrap();
        symlink("file", at("a/b/link")).unwrap();
        let root = openat(CWD, folder.path(), IDENTIFY, Mode::empty()).unwrap();
        let present = ["a", "a/b", "a/b/file"];
        let refused = ["link", "link/b", "a/link/file", "a/b/link", "a/none", "a/b/file/none"];
        for (path, is_present) in
            present.map(|path| (path, true)).into_iter().chain(refused.map(|path| (path, false)))
        {
            let path = Path::new(path);
            let number = |opened: io::Result<OwnedFd>| match opened {
                Ok(opened) => Ok(fstat(&opened).unwrap().st_ino),
                Err(error) => Err(error.to_string()),
            };
            let walked = number(walk(root.as_fd(), path));
            assert_eq!(walked, number(identify(root.as_fd(), path)), "{path:?}");
            assert_eq!(walked.is_ok(), is_present, "{path:?}");
        }
        for path in ["", "/", "..", "a/../a", "/etc", "."] {
            assert!(identify(root.as_fd(), Path::new(path)).is_err(), "{path:?}");
        }
    }
}
