//! Parses `/proc/PID/maps`, the memory map of a process (proc(5)).

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use nix::unistd::Pid;

use super::{PtraceError, live_thread, proc};
use crate::address::RunAddr;

/// The kernel's notation for a line feed in a path. The kernel writes all other bytes unchanged.
const LINE_FEED: &[u8] = b"\\012";
/// Text that the kernel appends to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// Identity of a file in the kernel, regardless of its path in a mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
}

impl FileId {
    /// Takes the identity from the result of `stat`. On some file systems (btrfs, overlayfs) this
    /// device number differs from the one in a memory map.
    pub fn from_status(status: &impl std::os::unix::fs::MetadataExt) -> Self {
        let device = (libc::major(status.dev()), libc::minor(status.dev()));
        FileId { device, inode: status.ino() }
    }
}

/// One mapping of a process's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: RunAddr,
    /// Address after the last one.
    pub end: RunAddr,
    /// Whether the process can read the memory.
    pub readable: bool,
    /// Whether the process can write to the memory.
    pub writable: bool,
    /// Whether the process can execute the memory.
    pub executable: bool,
    /// Whether writes go to the file, and are visible to other processes that map it.
    pub shared: bool,
    /// Offset of the mapping in the file, in bytes.
    pub offset: u64,
    /// The mapped file, if there is one.
    pub file: Option<FileId>,
    /// Path of the file in the process's mount namespace, or the kernel's name of the memory; empty
    /// without a name.
    pub path: PathBuf,
}

impl Mapping {
    /// Whether two mappings belong to the same file. Two files of one btrfs device may have the
    /// same numbers, so paths are compared too.
    pub fn is_same_file(&self, other: &Mapping) -> bool {
        self.file.is_some() && self.file == other.file && self.path == other.path
    }

    /// Whether the file has been deleted, or replaced by another file.
    pub fn is_deleted(&self) -> bool {
        self.file.is_some() && self.path.as_os_str().as_bytes().ends_with(DELETED)
    }

    /// The file's path without the kernel's deletion mark.
    pub fn original_path(&self) -> PathBuf {
        let path = self.path.as_os_str().as_bytes();
        let path = path.strip_suffix(DELETED).filter(|_| self.file.is_some()).unwrap_or(path);
        OsStr::from_bytes(path).into()
    }

    /// The file's name, to which selection rules apply.
    pub fn file_name(&self) -> String {
        self.original_path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Reads the mappings of a process, by address.
///
/// # Errors
/// [`PtraceError::Ended`] if the process has ended; [`PtraceError::System`] if the map cannot be
/// read.
pub fn mappings(pid: Pid) -> Result<Vec<Mapping>, PtraceError> {
    let failed = |source| PtraceError::System { pid, operation: "read what it has mapped", source };
    let mut text = proc::read(pid, "maps");
    if text.as_ref().is_ok_and(Vec::is_empty) {
        text = proc::read(live_thread(pid), "maps");
    }
    let text = match text {
        // The map of an ended process is empty.
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
        start: RunAddr(number(start)?),
        end: RunAddr(number(end)?),
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        shared: permissions.get(3) == Some(&b's'),
        offset,
        file: (inode != 0).then_some(FileId { device, inode }),
        path: unescaped(path),
    })
}

/// Decodes a path. The text `\012` becomes a line feed, even where a file name contains this text
/// literally; users of the path compare the file's identity.
fn unescaped(path: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(LINE_FEED) {
            Some(after) => {
                bytes.push(b'\n');
                rest = after;
            }
            None => {
                bytes.push(*first);
                rest = after;
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
            start: RunAddr(0x7f01),
            end: RunAddr(0x7f02),
            readable: true,
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
    fn paths_may_contain_any_bytes_and_be_deleted() {
        let entry = |path: &[u8]| mapping(&[b"1-2 r-xp 0 0:1 7 ", path].concat()).unwrap();
        assert_eq!(entry(b"/a\\012b\xff\x1b").path.as_os_str().as_bytes(), b"/a\nb\xff\x1b");
        let deleted = entry(b"/lib/libz.so.1 (deleted)");
        assert!(deleted.is_deleted() && !entry(b"/lib/libz.so.1").is_deleted());
        assert_eq!(deleted.file_name(), "libz.so.1");
        assert_eq!(deleted.original_path(), PathBuf::from("/lib/libz.so.1"));
    }

    #[test]
    fn this_program_is_mapped() {
        let here = RunAddr(a_line_is_a_mapping as *const () as u64);
        let mappings = mappings(Pid::this()).unwrap();
        let own_mapping =
            mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&here));
        let own_mapping = own_mapping.unwrap();
        assert!(own_mapping.executable);
        assert_eq!(own_mapping.path, std::env::current_exe().unwrap());
    }
}
