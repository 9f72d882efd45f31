//! Opens and reads regular files without being blocked, or made to act, by anything else at the same path.
//!
//! Paths come from the memory maps of other processes and from names inside their files. Opening a
//! FIFO blocks until a writer opens it, opening a device may have an effect on the device, and
//! either may replace a regular file between a check and the open. Therefore a path is first opened
//! with `O_PATH`, which has no effect on the file. Only if that descriptor is a regular file is the
//! file opened for reading, through the descriptor.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open as open_path, openat2};

/// Largest file that is read, in bytes. Browsers with debug information have about a quarter of
/// that.
pub(crate) const LARGEST: u64 = 4 << 30;
/// Flags of a descriptor that only identifies a file.
const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a regular file for reading.
///
/// # Errors
/// An [`io::Error`] if the file cannot be opened, is not a regular file or is larger than
/// [`LARGEST`].
pub(crate) fn open(path: &Path) -> io::Result<File> {
    reopen(open_path(path, PATH, Mode::empty())?.as_fd())
}

/// Opens a regular file below a directory. No link leads out of the directory: absolute links start
/// there.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    reopen(openat2(root, path, PATH, Mode::empty(), resolve)?.as_fd())
}

/// Opens a directory that serves as the root of [`open_below`].
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

/// Reads a whole file from its beginning, regardless of the file position.
///
/// # Errors
/// An [`io::Error`] if the file cannot be read, or is larger than [`LARGEST`].
pub(crate) fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut file = reopen(file.as_fd())?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow while it is read.
    file.by_ref().take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// Opens the file that a descriptor identifies, if it is a regular file.
fn reopen(descriptor: BorrowedFd<'_>) -> io::Result<File> {
    let status = fstat(descriptor)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if u64::try_from(status.st_size).is_ok_and(|size| size > LARGEST) {
        return Err(too_large());
    }
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
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
    fn links_do_not_lead_out_of_the_root() {
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
