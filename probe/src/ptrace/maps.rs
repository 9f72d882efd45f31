//! `/proc/PID/maps` to mappings (proc(5)).

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use nix::unistd::Pid;

use super::{PtraceError, proc};

/// What the kernel writes for a line feed in a path; it writes all other bytes as they are.
const LINE_FEED: &[u8] = b"\\012";
/// What the kernel adds to the path of a file that has no name any more.
const DELETED: &[u8] = b" (deleted)";

/// A file as the kernel identifies it, whatever it is called in which mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
}

impl FileId {
    /// The identity in what `stat` says of a file. On some file systems (btrfs, overlayfs) that is another device
    /// than the one in a memory map.
    pub fn from_status(status: &impl std::os::unix::fs::MetadataExt) -> Self {
        let device = (libc::major(status.dev()), libc::minor(status.dev()));
        FileId { device, inode: status.ino() }
    }
}

/// Some of a process's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind it.
    pub end: u64,
    /// Whether the process can write to it.
    pub writable: bool,
    /// Whether instructions in it can be executed.
    pub executable: bool,
    /// Whether what is written there is written to the file, and seen by whoever else maps it.
    pub shared: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file that is mapped, if one is.
    pub file: Option<FileId>,
    /// The file's path in the process's mount namespace, or what the kernel calls the memory; empty if it has no name.
    pub path: PathBuf,
}

impl Mapping {
    /// Whether two mappings are of the same file. Two files of one btrfs device may have the same numbers.
    pub fn is_same_file(&self, other: &Mapping) -> bool {
        self.file.is_some() && self.file == other.file && self.path == other.path
    }

    /// Whether the file's name is gone: it was deleted, or another file has taken its place.
    pub fn is_deleted(&self) -> bool {
        self.file.is_some() && self.path.as_os_str().as_bytes().ends_with(DELETED)
    }

    /// The file's path without the kernel's remark that it is gone.
    pub fn original_path(&self) -> PathBuf {
        let path = self.path.as_os_str().as_bytes();
        let path = path.strip_suffix(DELETED).filter(|_| self.file.is_some()).unwrap_or(path);
        OsStr::from_bytes(path).into()
    }

    /// The file's name as rules see it.
    pub fn file_name(&self) -> String {
        self.original_path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// What a process has mapped, by address.
pub fn mappings(pid: Pid) -> Result<Vec<Mapping>, PtraceError> {
    let failed = |source| PtraceError::System { pid, operation: "read what it has mapped", source };
    let text = match proc::read(pid, "maps") {
        // One that is no more has none.
        Ok(text) if text.is_empty() => return Err(PtraceError::Ended(pid)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(PtraceError::Ended(pid)),
        text => text.map_err(failed)?,
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(mapping).collect())
}

fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?.as_bytes();
    let offset = number(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let part = |text| u32::from_str_radix(text, 16).ok();
    let device = (part(major)?, part(minor)?);
    let inode = field()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        shared: permissions.get(3) == Some(&b's'),
        offset,
        file: (inode != 0).then_some(FileId { device, inode }),
        path: unescaped(path),
    })
}

/// A path as it is. One that has `\012` in its name is taken for one with a line feed: whoever opens it compares the
/// file's numbers.
fn unescaped(path: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        match rest.strip_prefix(LINE_FEED) {
            Some(behind) => {
                bytes.push(b'\n');
                rest = behind;
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mapping() {
        let line = b"7f01-7f02 r-xp 00001000 fe:01 42                         /usr/lib/a b.so";
        let expected = Mapping {
            start: 0x7f01,
            end: 0x7f02,
            writable: false,
            executable: true,
            shared: false,
            offset: 0x1000,
            file: Some(FileId { device: (0xfe, 1), inode: 42 }),
            path: "/usr/lib/a b.so".into(),
        };
        assert_eq!(mapping(line), Some(expected));
        let anonymous = mapping(b"7f01-7f02 rw-s 0 0:0 0").unwrap();
        assert_eq!((anonymous.path, anonymous.file), (PathBuf::new(), None));
        assert!(anonymous.shared);
        assert_eq!(mapping(b"nonsense"), None);
        assert_eq!(mapping(b"7f01-7f02 rw-p 0 0:0"), None);
    }

    #[test]
    fn paths_may_have_any_bytes_and_be_gone() {
        let of = |path: &[u8]| mapping(&[b"1-2 r-xp 0 0:1 7 ", path].concat()).unwrap();
        assert_eq!(of(b"/a\\012b\xff\x1b").path.as_os_str().as_bytes(), b"/a\nb\xff\x1b");
        let gone = of(b"/lib/libz.so.1 (deleted)");
        assert!(gone.is_deleted() && !of(b"/lib/libz.so.1").is_deleted());
        assert_eq!(gone.file_name(), "libz.so.1");
        assert_eq!(gone.original_path(), PathBuf::from("/lib/libz.so.1"));
    }

    #[test]
    fn our_own_program_is_mapped() {
        let here = a_line_is_a_mapping as *const () as u64;
        let mappings = mappings(Pid::this()).unwrap();
        let found = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&here));
        let found = found.unwrap();
        assert!(found.executable);
        assert_eq!(found.path, std::env::current_exe().unwrap());
    }
}
