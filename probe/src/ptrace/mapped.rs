//! Opens the files that a process has mapped. Paths are not enough, because they may lead to other
//! files in this process.
//!
//! A path in a memory map belongs to the process's mount namespace at the time of the mapping. In
//! this process the same path may lead to another build of the file, or to a newer version. Moved
//! instructions must be equal to those in memory, so only the mapped file itself is accepted:
//!
//! 1. `/proc/PID/map_files` and `/proc/PID/exe` lead to the mapped file, deleted or not. The former
//!    needs `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`.
//! 2. Otherwise the path is opened below the process's root, then in this process's mount
//!    namespace. The file must have the mapped file's device and inode. Where a file system has
//!    several numbers for one file, the file must have the same first page as the memory.
//!
//! Rejected: anything but a regular file, and a file that has replaced the mapped one.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::{FileId, Mapping, PtraceError, ReadMemory, live_thread, mappings};
use crate::address::RunAddr;
use crate::regular_file;

/// Bytes at the beginning of a file that are compared with memory: the headers, usually with the
/// build identifier.
const COMPARED: usize = 4096;

/// Reason why a mapped file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MappedError {
    /// The file cannot be opened.
    #[error("process {pid}: cannot open {path}, which it has mapped")]
    Open {
        /// The process.
        pid: Pid,
        /// The file.
        path: PathBuf,
        /// Why it cannot be opened.
        #[source]
        source: io::Error,
    },
    /// The path leads to another file than the mapped one.
    #[error(
        "process {pid}: {path} is not the file that is mapped, which was replaced or is in another mount \
         namespace; run hmtt as root (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE)"
    )]
    Another {
        /// The process.
        pid: Pid,
        /// The path.
        path: PathBuf,
    },
    /// The file's path has been deleted.
    #[error(
        "process {pid}: {path} is mapped and was deleted or replaced since; run hmtt as root (CAP_SYS_ADMIN or \
         CAP_CHECKPOINT_RESTORE) to reach the old file, or start the program again"
    )]
    Deleted {
        /// The process.
        pid: Pid,
        /// The path that the file had.
        path: PathBuf,
    },
}

/// Opens the program of a process. Also returns its path in the process's mount namespace.
///
/// # Errors
/// [`PtraceError::System`] if the process has no program that may be read.
pub fn program(pid: Pid) -> Result<(File, PathBuf), PtraceError> {
    let link = PathBuf::from(format!("/proc/{}/exe", live_thread(pid)));
    let failed = |source| PtraceError::System { pid, operation: "find its program", source };
    let path = std::fs::read_link(&link).map_err(failed)?;
    let file = regular_file::open(&link).map_err(|source| PtraceError::System {
        pid,
        operation: "open its program",
        source,
    })?;
    Ok((file, path))
}

/// The first executable mapping of a process's program file.
pub fn program_mapping(pid: Pid, mapped: &[Mapping]) -> Option<&Mapping> {
    let link = format!("/proc/{}/exe", live_thread(pid));
    let id = std::fs::metadata(&link).ok().map(|status| FileId::from_status(&status));
    let path = std::fs::read_link(&link).ok();
    let code = || mapped.iter().filter(|mapping| mapping.executable && mapping.file.is_some());
    let same_id = code().find(|mapping| mapping.file == id);
    same_id.or_else(|| code().find(|mapping| path.as_ref() == Some(&mapping.path)))
}

/// Opens the file of a mapping. `mapped`: all mappings of the process; `read`: reads its memory,
/// and returns whether that succeeded.
///
/// # Errors
/// [`MappedError`] if the mapped file is not found or cannot be opened.
pub fn open(
    pid: Pid,
    mapping: &Mapping,
    mapped: &[Mapping],
    read: impl Fn(RunAddr, &mut [u8]) -> bool,
) -> Result<File, MappedError> {
    let thread = live_thread(pid);
    let link = format!("/proc/{thread}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    match regular_file::open(Path::new(&link)) {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let path = mapping.path.clone();
            return Err(MappedError::Open { pid, path, source: error });
        }
        // The kernel does not permit or support this way.
        Err(_) => {}
    }
    let path = mapping.original_path();
    let below = || {
        let root = regular_file::directory(Path::new(&format!("/proc/{thread}/root")))?;
        regular_file::open_below(root.as_fd(), &path)
    };
    let (below, ours) = (below(), regular_file::open(&path));
    let has_id = |file: &&File| {
        let id = file.metadata().map(|status| FileId::from_status(&status));
        id.is_ok_and(|id| mapping.file == Some(id))
    };
    let looks_same = |file: &&File| begins_as_memory(file, mapping, mapped, &read);
    let files = || [&below, &ours].into_iter().flatten();
    if let Some(file) = files().find(has_id).or_else(|| files().find(looks_same)) {
        return file.try_clone().map_err(|source| MappedError::Open { pid, path, source });
    }
    Err(match (below, ours) {
        _ if mapping.is_deleted() => MappedError::Deleted { pid, path },
        (Err(source), Err(_)) => MappedError::Open { pid, path, source },
        _ => MappedError::Another { pid, path },
    })
}

/// Whether a file begins with the same bytes as the memory that maps the start of the mapped file.
fn begins_as_memory(
    file: &File,
    mapping: &Mapping,
    mapped: &[Mapping],
    read: &impl Fn(RunAddr, &mut [u8]) -> bool,
) -> bool {
    let is_first = |candidate: &&Mapping| {
        candidate.is_same_file(mapping) && candidate.offset == 0 && !candidate.writable
    };
    let Some(first) = mapped.iter().find(is_first) else { return false };
    let (mut memory, mut bytes) = ([0; COMPARED], [0; COMPARED]);
    read(first.start, &mut memory) && file.read_exact_at(&mut bytes, 0).is_ok() && memory == bytes
}

/// Read access to the memory of a process whose threads may be running. The bytes may change while
/// they are read.
#[derive(Debug)]
pub struct RunningMemory {
    pid: Pid,
    file: File,
}

impl RunningMemory {
    /// Opens the memory of a process, which may be running.
    ///
    /// # Errors
    /// An [`io::Error`] if this program may not trace the process.
    pub fn open(pid: Pid) -> io::Result<Self> {
        File::open(format!("/proc/{}/mem", live_thread(pid)))
            .map(|file| RunningMemory { pid, file })
    }
}

impl ReadMemory for RunningMemory {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
        let read = self.file.read_exact_at(bytes, address.0);
        read.map_err(|source| PtraceError::memory(self.pid, "read its memory", source))
    }
}

/// Returns two lists, both by address: the first executable mapping of each mapped file, and all
/// mappings of the process.
///
/// # Errors
/// As [`mappings`].
pub fn code_files(pid: Pid) -> Result<(Vec<Mapping>, Vec<Mapping>), PtraceError> {
    let mapped = mappings(pid)?;
    let code = mapped.iter().filter(|mapping| mapping.executable && mapping.path.is_absolute());
    let mut seen = HashSet::new();
    let files =
        code.filter(|mapping| mapping.file.is_some() && seen.insert((mapping.file, &mapping.path)));
    let files = files.cloned().collect();
    Ok((files, mapped))
}
