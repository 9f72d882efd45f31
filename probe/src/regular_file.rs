//! Opens and reads regular files. A file of another kind at the same path neither blocks this
//! program nor is affected by the attempt.
//!
//! Paths come from the memory maps of other processes and from names inside their files. Opening a
//! FIFO blocks until a writer opens it, opening a device may have an effect on the device, and
//! either may replace a regular file between a check and the open. Therefore a path is first opened
//! with `O_PATH`, which has no effect on the file. If this descriptor is a regular file, the file
//! is opened for reading through the descriptor.
//!
//! A file with a few pages of data may be gigabytes long, with holes. Holes are not read, and take
//! no memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open as open_path, openat2, seek,
};

/// Maximum size of a file that is read, in bytes. Browsers with debug information have about a
/// quarter of this size.
pub(crate) const LARGEST: u64 = 4 << 30;
/// Flags of a descriptor that only identifies a file, without access to its contents.
const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a regular file for reading.
///
/// # Errors
/// An [`io::Error`] if the file cannot be opened, is not a regular file or is larger than
/// [`LARGEST`].
pub(crate) fn open(path: &Path) -> io::Result<File> {
    reopen(open_path(path, PATH, Mode::empty())?.as_fd())
}

/// Opens a regular file below a directory. No link leads out of the directory: the targets of
/// absolute links are looked up in it.
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
    // The system allocates zeroed memory only where it is written.
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let mut at = 0;
    while let Some(data) = data_after(&file, at, size) {
        file.read_exact_at(&mut bytes[data.start as usize..data.end as usize], data.start)?;
        at = data.end;
    }
    // The file may grow while it is read.
    file.seek(SeekFrom::Start(size))?;
    file.by_ref().take((LARGEST + 1).saturating_sub(size)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// The first range of data, not a hole, from an offset on, up to `size`; `None` if there is no more
/// data.
fn data_after(file: &File, at: u64, size: u64) -> Option<std::ops::Range<u64>> {
    use rustix::fs::SeekFrom as To;
    if at >= size {
        return None;
    }
    let start = match seek(file, To::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return None,
        // A file system that does not report holes is read as a whole.
        Err(_) => return Some(at..size),
    };
    let end = seek(file, To::Hole(start)).unwrap_or(size).min(size);
    (start < end).then_some(start..end)
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
    fn holes_of_a_file_take_no_memory() {
        const DATA: [u64; 3] = [0, 1 << 30, LARGEST - 4096];
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(LARGEST - 1).unwrap();
        for at in DATA {
            file.write_all_at(&[1; 4095], at).unwrap();
        }
        file.seek(SeekFrom::Start(0)).unwrap();
        if data_after(&file, 1 << 20, LARGEST) == Some(1 << 20..LARGEST) {
            // A file system without holes.
            return;
        }
        let bytes = contents(&file).unwrap();
        assert_eq!(bytes.len() as u64, LARGEST - 1);
        for at in DATA {
            assert_eq!(bytes[at as usize..][..4095], [1; 4095]);
        }
        let page = crate::stubs::layout::PAGE_BYTES as usize;
        let start = bytes.as_ptr() as usize / page * page;
        let mut pages = vec![0u8; (bytes.as_ptr() as usize + bytes.len() - start).div_ceil(page)];
        // SAFETY: the kernel writes a byte for each page of the range, which is mapped.
        let is_known =
            unsafe { libc::mincore(start as *mut _, pages.len() * page, pages.as_mut_ptr()) };
        assert_eq!(is_known, 0);
        let resident = pages.iter().filter(|one| **one & 1 != 0).count();
        // A kernel may use large pages.
        assert!(resident <= DATA.len() * 1024, "{resident} pages");
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
