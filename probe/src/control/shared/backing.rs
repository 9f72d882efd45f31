//! Makes a file in memory that a process and we both have, without believing what the process says of it.
//!
//! Only the process can put a descriptor into its own table, so it makes the file (`memfd_create`) and we take a copy of
//! the descriptor that it names. Its answer may be a lie: a filter of its own can answer for the kernel, and name any
//! file that the process could open. Invariant: nothing is written to a file before it is known to be an empty file
//! in memory with the name that we have just made up; its size is fixed before it is mapped; and nothing is written
//! through a mapping before `/proc/PID/maps` says that it is one of that file, all of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use hmtt_format::tag_map::new_id;
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::control::TagError;
use crate::ptrace::{FileId, Process, PtraceError, mappings};

/// What the names of all such files begin with; 16 hexadecimal digits follow.
const PREFIX: &str = "hmtt-tag-";
const DIGITS: usize = 16;
/// After these nothing changes the size of the file any more: what is mapped stays there.
const SEALS: libc::c_int = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// Whether the kernel calls a file so that it is memory shared with tags.
pub fn is_ours(path: &Path) -> bool {
    let name = path.to_str().and_then(|path| path.strip_prefix("/memfd:"));
    let digits = name.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(" (deleted)"));
    digits.is_some_and(|it| it.len() == DIGITS && it.bytes().all(|one| one.is_ascii_hexdigit()))
}

/// A file in memory that a process has open.
pub struct Backing {
    pid: Pid,
    /// Its number in the process.
    descriptor: u64,
    /// Our own.
    pub file: File,
    bytes: u64,
}

/// How an answer of the process is wrong.
fn lie(pid: Pid, operation: &'static str, found: impl Into<String>) -> TagError {
    TagError::Answer { pid, operation, found: found.into() }
}

impl Backing {
    /// Lets the process make the file; it gets its size.
    ///
    /// # Errors
    /// [`TagError::Answer`] if what the process names is another file; that one is unchanged.
    pub fn new(process: &mut Process, bytes: u64) -> Result<Self, TagError> {
        let (pid, operation) = (process.pid, "make memory to share");
        let name = format!("{PREFIX}{:016x}", u64::from_le_bytes(new_id()));
        let text = format!("{name}\0").into_bytes();
        let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        let call = (libc::SYS_memfd_create, operation);
        let descriptor = process.call_with_text(call, &text, |text| [text, flags, 0, 0, 0, 0])?;
        let taken = take(pid, descriptor)
            .map_err(|source| TagError::Shared { pid, source })
            .and_then(|file| match check(&file, &name) {
                Ok(()) => Ok(file),
                Err(found) => Err(lie(pid, operation, found)),
            });
        let file = taken?;
        let backing = Backing { pid, descriptor, file, bytes };
        if let Err(source) = backing.size() {
            let _ = backing.close(process);
            return Err(TagError::Shared { pid, source });
        }
        Ok(backing)
    }

    /// Gives the file its size, which stays.
    fn size(&self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        // SAFETY: numbers only.
        let sealed = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
        Errno::result(sealed)?;
        match self.file.metadata()?.len() {
            len if len == self.bytes => Ok(()),
            // It is the process's too, and was so before it was sealed.
            len => Err(io::Error::other(format!("{len} bytes instead of {}", self.bytes))),
        }
    }

    /// Lets the process map all of it: at an address, in place of what is there, or where the kernel likes. Where
    /// that is comes back.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the process does not have it there.
    pub fn map(&self, process: &mut Process, over: Option<u64>) -> Result<u64, TagError> {
        let operation = "map memory to share";
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let fixed = if over.is_some() { libc::MAP_FIXED } else { 0 };
        let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | fixed) as u64;
        let arguments = [over.unwrap_or(0), self.bytes, protection, flags, self.descriptor, 0];
        let start = process.call((libc::SYS_mmap, operation), arguments)?;
        let pid = self.pid;
        let status = self.file.metadata().map_err(|source| TagError::Shared { pid, source })?;
        let file = Some(FileId::from_status(&status));
        let is_it = mappings(pid)?.iter().any(|one| {
            one.start == start
                && start.checked_add(self.bytes) == Some(one.end)
                && (one.file, one.offset) == (file, 0)
                && one.shared
                && one.writable
        });
        if !is_it || over.is_some_and(|over| over != start) {
            return Err(lie(pid, operation, format!("{start:x}, where that memory is not")));
        }
        // It is large and mostly empty. A core file has it where the process may not ask that it be left out.
        let keep_out = (libc::SYS_madvise, "keep shared memory out of core files");
        match process.call(keep_out, [start, self.bytes, libc::MADV_DONTDUMP as u64, 0, 0, 0]) {
            Err(PtraceError::Forbidden { .. }) => {}
            kept => drop(kept?),
        }
        Ok(start)
    }

    /// Lets the process close it; mappings stay.
    pub fn close(&self, process: &mut Process) -> Result<(), TagError> {
        let operation = "close the shared memory's file";
        process.call((libc::SYS_close, operation), [self.descriptor, 0, 0, 0, 0, 0])?;
        let link = std::fs::read_link(format!("/proc/{}/fd/{}", self.pid, self.descriptor));
        if link.is_ok_and(|path| is_ours(&path)) {
            return Err(lie(self.pid, operation, "success, and it is open"));
        }
        Ok(())
    }
}

/// A copy of a descriptor of a process (pidfd_getfd(2)): it opens nothing, so it gives no rights that the process has
/// not.
pub(super) fn take(pid: Pid, descriptor: u64) -> io::Result<File> {
    let number = libc::c_int::try_from(descriptor)
        .map_err(|_| io::Error::other(format!("{descriptor} is no descriptor")))?;
    // SAFETY: numbers only.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let process = Errno::result(process)? as libc::c_int;
    // SAFETY: the kernel has just made it, for nobody else.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    // SAFETY: numbers only.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    let copy = Errno::result(copy)? as libc::c_int;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) }.into())
}

/// Whether a file is an empty one in memory that has just been made, with a name; otherwise what it is.
fn check(file: &File, name: &str) -> Result<(), String> {
    let number = file.as_raw_fd();
    // SAFETY: numbers only.
    let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
    // SAFETY: numbers only.
    let mode = unsafe { libc::fcntl(number, libc::F_GETFL) };
    let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
    let about = file.metadata().map_err(|error| error.to_string())?;
    let path = path.map_err(|error| error.to_string())?;
    let is_ours = seals == 0
        && mode & (libc::O_ACCMODE | libc::O_PATH) == libc::O_RDWR
        && about.file_type().is_file()
        && (about.len(), about.nlink()) == (0, 0)
        && path.to_str() == Some(&format!("/memfd:{name} (deleted)"));
    if is_ours {
        return Ok(());
    }
    let kind = match about.file_type() {
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        kind if kind.is_file() => "a file",
        _ => "no file",
    };
    Err(format!("{kind}, {}, of {} bytes", path.display(), about.len()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::IntoRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    const NAME: &str = "hmtt-tag-0123456789abcdef";

    fn memory(name: &str, flags: u32) -> File {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: a text that outlives the call.
        let made = unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_CLOEXEC) };
        // SAFETY: made just now, for nobody else.
        unsafe { OwnedFd::from_raw_fd(Errno::result(made).unwrap()) }.into()
    }

    /// What a process that names a descriptor of its own gets to hear.
    fn answer(file: File) -> Result<(), String> {
        let number = file.into_raw_fd();
        let taken = take(Pid::this(), number as u64);
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(number) };
        check(&taken.map_err(|error| error.to_string())?, NAME)
    }

    #[test]
    fn memory_that_was_asked_for_is_taken() {
        assert_eq!(answer(memory(NAME, libc::MFD_ALLOW_SEALING)), Ok(()));
    }

    #[test]
    fn any_other_descriptor_is_refused_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("victim");
        std::fs::write(&path, "kept").unwrap();
        let open = |flags| File::options().read(true).custom_flags(flags).open(&path).unwrap();
        let sealing = libc::MFD_ALLOW_SEALING;
        let mut written = memory(NAME, sealing);
        written.write_all(b"x").unwrap();
        let writable = File::options().read(true).write(true).open(&path).unwrap();
        let others = [
            open(libc::O_PATH),
            open(0),
            writable,
            written,
            memory(NAME, 0),
            memory("hmtt-tag-0123456789abcdee", sealing),
            File::options().read(true).write(true).open("/dev/null").unwrap(),
        ];
        for file in others {
            let refused = answer(file);
            assert!(refused.is_err(), "{refused:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_number_that_is_no_descriptor_is_refused() {
        for number in [u64::MAX, 1 << 32, 1 << 20] {
            assert!(take(Pid::this(), number).is_err());
        }
    }

    #[test]
    fn its_size_stays() {
        let file = memory(NAME, libc::MFD_ALLOW_SEALING);
        let backing = Backing { pid: Pid::this(), descriptor: 0, file, bytes: 8192 };
        backing.size().unwrap();
        assert!(backing.file.set_len(0).is_err());
        assert!(backing.file.set_len(16384).is_err());
        assert_eq!(backing.file.metadata().unwrap().len(), 8192);
    }

    #[test]
    fn names_are_ours_with_all_their_digits_only() {
        let named = |name: &str| is_ours(Path::new(&format!("/memfd:{name} (deleted)")));
        assert!(named(NAME));
        for other in ["hmtt-tag", "hmtt-tag-", "hmtt-tag-0123456789abcdeg", "x-0123456789abcdef"] {
            assert!(!named(other), "{other}");
        }
        assert!(!is_ours(Path::new("/opt/hmtt-tag-0123456789abcdef (deleted)")));
    }
}
