//! Creates the unnamed file behind the shared memory, without trusting the process.
//!
//! Only the process can add a descriptor to its own table, so the process creates the file
//! (`memfd_create`), and the controller copies the descriptor that the process reports. The report
//! may be false: a seccomp filter of the process can answer instead of the kernel, and name any
//! file that the process could open.
//!
//! Invariant: nothing is written to a file before it is known to be an empty file in memory with
//! the random name that the controller has just chosen. The size of the file is sealed before it is
//! mapped. Nothing is written through a mapping before `/proc/PID/maps` shows that it maps this
//! file as a whole.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use hmtt_files::tag_map::new_id;
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::address::RunAddr;
use crate::control::TagError;
use crate::ptrace::{FileId, PtraceError, Stopped, live_thread, mappings};
use crate::stubs::layout::PAGE_BYTES;

/// Prefix of the names of all such files. A number of 16 hexadecimal digits follows.
const PREFIX: &str = "hmtt-tag-";
const DIGITS: usize = 16;
/// Seals that fix the size of the file: mapped pages stay valid.
const SIZE_SEALS: libc::c_int = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
/// Seals that fix the size of the file and forbid further seals.
const SEALS: libc::c_int = SIZE_SEALS | libc::F_SEAL_SEAL;

/// Whether a path in `/proc` names memory that is shared with tags.
pub fn is_tag_memory(path: &Path) -> bool {
    let name = path.to_str().and_then(|path| path.strip_prefix("/memfd:"));
    let digits = name.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(" (deleted)"));
    digits.is_some_and(|it| it.len() == DIGITS && it.bytes().all(|one| one.is_ascii_hexdigit()))
}

/// A file in memory that a process has open.
#[derive(Debug)]
pub struct Backing {
    pid: Pid,
    /// Number of the descriptor in the process.
    descriptor: u64,
    /// The controller's own descriptor.
    pub file: File,
    bytes: u64,
}

/// A part of the file that a process maps at an address where nothing is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// Address in the process, whole pages.
    pub at: RunAddr,
    /// Offset in the file, whole pages.
    pub offset: u64,
    /// Number of bytes. Parts that are adjacent in the file must not be adjacent in memory.
    pub bytes: u64,
    /// `PROT_READ` and the like (mmap(2)).
    pub protection: libc::c_int,
}

/// Error for a false report of the process.
pub(super) fn false_answer(
    pid: Pid,
    operation: &'static str,
    answer: impl Into<String>,
) -> TagError {
    TagError::Answer { pid, operation, found: answer.into() }
}

impl Backing {
    /// Makes the process create the file, and sets the file's size.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the process reports another file; that file is unchanged.
    pub fn new(process: &mut Stopped<'_>, bytes: u64) -> Result<Self, TagError> {
        Backing::with_seals(process, bytes, SEALS)
    }

    /// Like [`new`](Self::new), but the caller must call [`seal_writes`](Self::seal_writes) later.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn unsealed(process: &mut Stopped<'_>, bytes: u64) -> Result<Self, TagError> {
        Backing::with_seals(process, bytes, SIZE_SEALS)
    }

    fn with_seals(
        process: &mut Stopped<'_>,
        bytes: u64,
        seals: libc::c_int,
    ) -> Result<Self, TagError> {
        let (pid, operation) = (process.pid, "make memory to share");
        let name = format!("{PREFIX}{:016x}", u64::from_le_bytes(new_id()));
        let text = format!("{name}\0").into_bytes();
        let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        let call = (libc::SYS_memfd_create, operation);
        let descriptor = process.call_with_text(call, &text, |text| [text.0, flags, 0, 0, 0, 0])?;
        let file = match copy_descriptor(pid, descriptor) {
            Ok(file) => file,
            Err(source) => {
                let _ = process.call((libc::SYS_close, "close it"), [descriptor, 0, 0, 0, 0, 0]);
                let operation = "copy its descriptor of memory to share";
                return Err(TagError::Shared { pid, operation, source });
            }
        };
        check(&file, &name).map_err(|answer| false_answer(pid, operation, answer))?;
        let backing = Backing { pid, descriptor, file, bytes };
        if let Err(source) = backing.size(seals) {
            let _ = backing.close(process);
            return Err(TagError::Shared {
                pid,
                operation: "set the size of memory to share",
                source,
            });
        }
        Ok(backing)
    }

    /// Sets and seals the size of the file.
    fn size(&self, seals: libc::c_int) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.seal(seals)?;
        match self.file.metadata()?.len() {
            len if len == self.bytes => Ok(()),
            // The process could change the size before it was sealed.
            len => Err(io::Error::other(format!("{len} bytes instead of {}", self.bytes))),
        }
    }

    fn seal(&self, seals: libc::c_int) -> io::Result<()> {
        // SAFETY: the arguments are numbers.
        let sealed = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        Ok(Errno::result(sealed).map(drop)?)
    }

    /// Forbids writing to the file, except through mappings that exist already. These are the
    /// controller's mappings.
    ///
    /// # Errors
    /// [`TagError::Shared`] if the kernel refuses.
    pub fn seal_writes(&self) -> Result<(), TagError> {
        /// `F_SEAL_FUTURE_WRITE` (fcntl(2)).
        const FUTURE_WRITE: libc::c_int = 0x10;
        let (pid, operation) = (self.pid, "seal memory to share");
        let sealed = self.seal(FUTURE_WRITE | libc::F_SEAL_SEAL);
        sealed.map_err(|source| TagError::Shared { pid, operation, source })
    }

    /// Makes the process map a part of the file. The mapping is excluded from core files and from
    /// children, and is never locked. After `mlockall(MCL_FUTURE)` the kernel locks and fills new
    /// memory at once, so only one page is mapped first, unlocked, and then extended.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the part is not mapped at this address.
    pub fn map_part(&self, process: &mut Stopped<'_>, part: MappedPart) -> Result<(), TagError> {
        let (pid, operation) = (self.pid, "map a part of memory to share");
        let MappedPart { at, offset, bytes, protection } = part;
        let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE) as u64;
        let arguments = [at.0, PAGE_BYTES, protection as u64, flags, self.descriptor, offset];
        let start = RunAddr(process.call((libc::SYS_mmap, operation), arguments)?);
        if start != at {
            let answer = format!("{start:x}, where that memory was not to be mapped");
            return Err(false_answer(pid, operation, answer));
        }
        let advice = |advice: libc::c_int| [at.0, PAGE_BYTES, advice as u64, 0, 0, 0];
        let (advise, unlock) = (libc::SYS_madvise, libc::SYS_munlock);
        let out = advice(libc::MADV_DONTDUMP);
        process.call((advise, "keep shared memory out of core files"), out)?;
        let alone = advice(libc::MADV_DONTFORK);
        process.call((advise, "keep shared memory out of children"), alone)?;
        process.call((unlock, "unlock shared memory"), [at.0, PAGE_BYTES, 0, 0, 0, 0])?;
        if bytes > PAGE_BYTES {
            let grow = (libc::SYS_mremap, operation);
            process.call(grow, [at.0, PAGE_BYTES, bytes, 0, 0, 0])?;
        }
        let file = Some(self.identity()?);
        let is_mapped = mappings(pid)?.iter().any(|mapping| {
            mapping.start == at
                && at.checked_add(bytes) == Some(mapping.end)
                && (mapping.file, mapping.offset) == (file, offset)
                && mapping.shared
                && mapping.writable == (protection & libc::PROT_WRITE != 0)
                && mapping.executable == (protection & libc::PROT_EXEC != 0)
        });
        if !is_mapped {
            let answer = format!("{start:x}, where that memory is not mapped");
            return Err(false_answer(pid, operation, answer));
        }
        Ok(())
    }

    /// The identity of the file.
    ///
    /// # Errors
    /// [`TagError::Shared`] if the kernel refuses.
    pub fn identity(&self) -> Result<FileId, TagError> {
        let (pid, operation) = (self.pid, "identify memory to share");
        let status = self.file.metadata();
        let status = status.map_err(|source| TagError::Shared { pid, operation, source })?;
        Ok(FileId::from_status(&status))
    }

    /// Makes the process map the whole file: at the address `over`, in place of the mapping there,
    /// or at an address that the kernel chooses. Returns the address.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the file is not mapped there.
    pub fn map(
        &self,
        process: &mut Stopped<'_>,
        over: Option<RunAddr>,
    ) -> Result<RunAddr, TagError> {
        let operation = "map memory to share";
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let fixed = if over.is_some() { libc::MAP_FIXED } else { 0 };
        let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | fixed) as u64;
        let arguments =
            [over.unwrap_or_default().0, self.bytes, protection, flags, self.descriptor, 0];
        let start = RunAddr(process.call((libc::SYS_mmap, operation), arguments)?);
        let pid = self.pid;
        let status = self.file.metadata();
        let status = status.map_err(|source| TagError::Shared { pid, operation, source })?;
        let file = Some(FileId::from_status(&status));
        let is_mapped = mappings(pid)?.iter().any(|mapping| {
            mapping.start == start
                && start.checked_add(self.bytes) == Some(mapping.end)
                && (mapping.file, mapping.offset) == (file, 0)
                && mapping.shared
                && mapping.writable
        });
        if !is_mapped || over.is_some_and(|over| over != start) {
            return Err(false_answer(
                pid,
                operation,
                format!("{start:x}, where that memory is not mapped"),
            ));
        }
        // The mapping is large and mostly empty, so it is excluded from core files. If the process
        // must not make this call, the mapping is in core files.
        let keep_out = (libc::SYS_madvise, "keep shared memory out of core files");
        match process.call(keep_out, [start.0, self.bytes, libc::MADV_DONTDUMP as u64, 0, 0, 0]) {
            Err(PtraceError::Forbidden { .. }) => {}
            kept => drop(kept?),
        }
        Ok(start)
    }

    /// Makes the process close the file. Mappings of the file stay.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the file is still open.
    pub fn close(&self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        let operation = "close the shared memory's file";
        process.call((libc::SYS_close, operation), [self.descriptor, 0, 0, 0, 0, 0])?;
        let thread = live_thread(self.pid);
        let link = std::fs::read_link(format!("/proc/{thread}/fd/{}", self.descriptor));
        if link.is_ok_and(|path| is_tag_memory(&path)) {
            return Err(false_answer(self.pid, operation, "success, but it is still open"));
        }
        Ok(())
    }
}

/// Copies a descriptor of a process (pidfd_getfd(2)). Nothing is opened, so the controller gets no
/// access that the process does not have.
pub(super) fn copy_descriptor(pid: Pid, descriptor: u64) -> io::Result<File> {
    let number = libc::c_int::try_from(descriptor)
        .map_err(|_| io::Error::other(format!("{descriptor} is no descriptor")))?;
    /// `PIDFD_THREAD` (pidfd_open(2), Linux 6.9).
    const THREAD: libc::c_int = libc::O_EXCL;
    // A first thread that has ended has no descriptors any more; the other threads still have them.
    let thread = live_thread(pid);
    let flags = if thread == pid { 0 } else { THREAD };
    // SAFETY: the arguments are numbers.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, thread.as_raw(), flags) };
    let process = Errno::result(process)? as libc::c_int;
    // SAFETY: the kernel has just created the descriptor, and nothing else uses it.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    // SAFETY: the arguments are numbers.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    let copy = Errno::result(copy)? as libc::c_int;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) }.into())
}

/// Checks that a file is a new, empty file in memory with a name; otherwise describes what it is.
fn check(file: &File, name: &str) -> Result<(), String> {
    let number = file.as_raw_fd();
    // SAFETY: the arguments are numbers.
    let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
    // SAFETY: the arguments are numbers.
    let mode = unsafe { libc::fcntl(number, libc::F_GETFL) };
    let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
    let about = file.metadata().map_err(|error| error.to_string())?;
    let path = path.map_err(|error| error.to_string())?;
    let is_tag_memory = seals == 0
        && mode & (libc::O_ACCMODE | libc::O_PATH) == libc::O_RDWR
        && about.file_type().is_file()
        && (about.len(), about.nlink()) == (0, 0)
        && path.to_str() == Some(&format!("/memfd:{name} (deleted)"));
    if is_tag_memory {
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
        // SAFETY: the text outlives the call.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_CLOEXEC) };
        // SAFETY: created just now, and nothing else uses it.
        unsafe { OwnedFd::from_raw_fd(Errno::result(descriptor).unwrap()) }.into()
    }

    /// Result for a process that reports a descriptor of its own.
    fn accept(file: File) -> Result<(), String> {
        let number = file.into_raw_fd();
        let copy = copy_descriptor(Pid::this(), number as u64);
        // SAFETY: this test's own descriptor, which is not used again.
        unsafe { libc::close(number) };
        check(&copy.map_err(|error| error.to_string())?, NAME)
    }

    #[test]
    fn memory_that_was_requested_is_accepted() {
        assert_eq!(accept(memory(NAME, libc::MFD_ALLOW_SEALING)), Ok(()));
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
            let refused = accept(file);
            assert!(refused.is_err(), "{refused:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_number_that_is_no_descriptor_is_refused() {
        for number in [u64::MAX, 1 << 32, 1 << 20] {
            assert!(copy_descriptor(Pid::this(), number).is_err());
        }
    }

    #[test]
    fn the_size_is_sealed() {
        let file = memory(NAME, libc::MFD_ALLOW_SEALING);
        let backing = Backing { pid: Pid::this(), descriptor: 0, file, bytes: 8192 };
        backing.size(SEALS).unwrap();
        assert!(backing.file.set_len(0).is_err());
        assert!(backing.file.set_len(16384).is_err());
        assert_eq!(backing.file.metadata().unwrap().len(), 8192);
    }

    #[test]
    fn names_need_all_their_digits() {
        let named = |name: &str| is_tag_memory(Path::new(&format!("/memfd:{name} (deleted)")));
        assert!(named(NAME));
        for other in ["hmtt-tag", "hmtt-tag-", "hmtt-tag-0123456789abcdeg", "x-0123456789abcdef"] {
            assert!(!named(other), "{other}");
        }
        assert!(!is_tag_memory(Path::new("/opt/hmtt-tag-0123456789abcdef (deleted)")));
    }
}
