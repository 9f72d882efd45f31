//! Opens and reads regular files without being blocked, or made to act, by anything else at the same path.
//!
//! Paths come from other processes' memory maps and from names inside their files. Opening a FIFO waits for a writer,
//! opening a device may start something, and both may take a regular file's place between a check and the opening. So a
//! path is first opened with `O_PATH`, which has no effect on what is there, and only what is then seen to be a regular
//! file is opened for reading, through that descriptor.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open as open_path, openat2};

/// Largest file that is read, in bytes: browsers with debug information have about a quarter of that.
pub(crate) const LARGEST: u64 = 4 << 30;
/// Flags of a descriptor that only stands for a file.
const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a regular file for reading.
///
/// # Errors
/// An [`io::Error`] if it cannot be opened, is no regular file or is larger than [`LARGEST`].
pub(crate) fn open(path: &Path) -> io::Result<File> {
    reopen(open_path(path, PATH, Mode::empty())?.as_fd())
}

/// Opens a regular file below a directory, which no link leads out of: absolute links begin at the directory.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    reopen(openat2(root, path, PATH, Mode::empty(), resolve)?.as_fd())
}

/// Opens a directory, to be the root of [`open_below`].
///
/// # Errors
/// An [`io::Error`] if there is no such directory or it may not be searched.
pub(crate) fn directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, PATH | OFlags::DIRECTORY, Mode::empty())?)
}

/// Reads a regular file from its beginning.
///
/// # Errors
/// As [`open`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    contents(&open(path)?)
}

/// Reads a file from its beginning, whatever was read from it before.
///
/// # Errors
/// An [`io::Error`] if it cannot be read, or has grown larger than [`LARGEST`].
pub(crate) fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut file = reopen(file.as_fd())?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // It may grow while it is read.
    file.by_ref().take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// Opens what a descriptor stands for, if it is a regular file.
fn reopen(found: BorrowedFd<'_>) -> io::Result<File> {
    let status = fstat(found)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file"));
    }
    if u64::try_from(status.st_size).is_ok_and(|size| size > LARGEST) {
        return Err(too_large());
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(open_path(path, flags, Mode::empty())?.into())
}

fn too_large() -> io::Error {
    let text = format!("larger than {} GiB", LARGEST >> 30);
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink(at("fifo"), at("link")).unwrap();
        assert_eq!(read(&at("file")).unwrap(), b"text");
        for name in ["fifo", "link", "missing", "."] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert!(open(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("sparse")).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let error = read(&folder.path().join("sparse")).unwrap_err();
        assert_eq!(error.to_string(), "larger than 4 GiB");
    }

    #[test]
    fn links_do_not_lead_out_of_a_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(folder.path().join("secret"), "outside").unwrap();
        std::fs::write(root.join("secret"), "inside").unwrap();
        symlink("/secret", root.join("absolute")).unwrap();
        symlink("../secret", root.join("up")).unwrap();
        let root = directory(&root).unwrap();
        for name in ["/absolute", "/up", "secret"] {
            let file = open_below(root.as_fd(), Path::new(name)).unwrap();
            assert_eq!(contents(&file).unwrap(), b"inside", "{name}");
        }
    }
}
