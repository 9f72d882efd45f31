//! Writes a map of code without a file for `perf` (`tools/perf/Documentation/jit-interface.txt` of Linux):
//! `/tmp/perf-PID.map`, with first address, size and name of each part, such as the stubs of a function.
//!
//! The directory is the process's own `/tmp`, which everyone may write to, and the controller may run as root. So the
//! file is always created, and nothing that is already there is followed, overwritten or trusted. `perf` reads the file
//! only if it belongs to the user who runs `perf`, so the file gets the process's user as its owner. Unless it is kept, it
//! is removed at the end if it is still the same file.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use nix::unistd::Pid;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, fchown, fstat, openat2, statat,
    unlinkat,
};

use super::Tagged;
use crate::ptrace::live_thread;

/// Reason why the map cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("process {pid}: cannot {operation} its /tmp/{name}")]
pub struct PerfMapError {
    /// Process ID.
    pub pid: Pid,
    /// Name of the file.
    pub name: String,
    /// The operation that failed.
    pub operation: &'static str,
    /// The reason.
    #[source]
    pub source: io::Error,
}

/// Where `perf` looks for the map of a process.
#[derive(Debug)]
pub struct PerfMapPlace {
    pid: Pid,
    folder: OwnedFd,
    name: String,
    user: Option<Uid>,
    group: Option<Gid>,
}

/// A map that is being written.
#[derive(Debug)]
pub struct PerfMap {
    place: PerfMapPlace,
    file: File,
    is_kept: bool,
    /// Number of code ranges that are in the map.
    pieces: usize,
}

/// A file as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenMap {
    device: u64,
    inode: u64,
    bytes: i64,
    changed: (i64, u64),
}

impl WrittenMap {
    fn new(status: &Stat) -> Self {
        let (device, inode, bytes) = (status.st_dev, status.st_ino, status.st_size);
        WrittenMap { device, inode, bytes, changed: (status.st_mtime, status.st_mtime_nsec) }
    }
}

/// Follow no links: the process may have made them.
const INSIDE: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl PerfMapPlace {
    /// The place for a process that has not ended.
    ///
    /// # Errors
    /// [`PerfMapError`] if its directory cannot be opened.
    pub fn new(pid: Pid) -> Result<Self, PerfMapError> {
        let inner = status(pid, "NSpid:").and_then(|ids| ids.last().copied());
        let name = format!("perf-{}.map", inner.unwrap_or(pid.as_raw().cast_unsigned()));
        let open = || {
            let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(
                format!("/proc/{}/root", live_thread(pid)),
                folder,
                Mode::empty(),
            )?;
            openat2(&root, "tmp", folder, Mode::empty(), INSIDE)
        };
        // The kernel reports real, effective, saved and file-system ID.
        let effective = |name| status(pid, name).and_then(|ids| ids.get(1).copied());
        let (user, group) =
            (effective("Uid:").map(Uid::from_raw), effective("Gid:").map(Gid::from_raw));
        match open() {
            Ok(folder) => Ok(PerfMapPlace { pid, folder, name, user, group }),
            Err(error) => {
                Err(PerfMapError { pid, name, operation: "create", source: error.into() })
            }
        }
    }

    fn error(&self, operation: &'static str, source: impl Into<io::Error>) -> PerfMapError {
        let (pid, name) = (self.pid, self.name.clone());
        PerfMapError { pid, name, operation, source: source.into() }
    }

    /// Checks that there is no file yet.
    ///
    /// # Errors
    /// [`PerfMapError`] if there is one, or it is not known.
    pub fn check_absent(&self) -> Result<(), PerfMapError> {
        match statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            Ok(_) => Err(self.error("create", rustix::io::Errno::EXIST)),
            Err(error) => Err(self.error("create", error)),
        }
    }

    /// Removes a regular file of the process's user, which an earlier process with the same number has left.
    ///
    /// # Errors
    /// [`PerfMapError`] if it cannot be removed.
    pub fn remove_old(&self) -> Result<(), PerfMapError> {
        let name = self.name.as_str();
        let is_old = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| {
            FileType::from_raw_mode(there.st_mode) == FileType::RegularFile
                && self.user.is_some_and(|user| user.as_raw() == there.st_uid)
        });
        if !is_old {
            return Ok(());
        }
        unlinkat(&self.folder, name, AtFlags::empty()).map_err(|error| self.error("remove", error))
    }

    /// Removes the file that was written for an earlier program of the process, unless it was changed or replaced since.
    ///
    /// # Errors
    /// [`PerfMapError`] if it cannot be removed.
    pub fn remove_written(&self, written: WrittenMap) -> Result<(), PerfMapError> {
        let name = self.name.as_str();
        let there = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| WrittenMap::new(&there) == written) {
            let removed = unlinkat(&self.folder, name, AtFlags::empty());
            removed.map_err(|error| self.error("remove", error))?;
        }
        Ok(())
    }

    /// Creates an empty map.
    ///
    /// # Errors
    /// [`PerfMapError`] if the file cannot be created, for example because it exists.
    pub fn create(self) -> Result<PerfMap, PerfMapError> {
        let how =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat2(&self.folder, self.name.as_str(), how, mode, INSIDE);
        let file = File::from(file.map_err(|error| self.error("create", error))?);
        let map = PerfMap { place: self, file, is_kept: false, pieces: 0 };
        let place = &map.place;
        // Whoever may read the process's memory may read its functions' names.
        let all = Permissions::from_mode(0o644);
        map.file.set_permissions(all).map_err(|error| place.error("create", error))?;
        let given = fchown(&map.file, place.user, place.group);
        given.map_err(|error| place.error("give its user", error))?;
        Ok(map)
    }
}

impl PerfMap {
    /// Creates an empty map for a process.
    ///
    /// # Errors
    /// [`PerfMapError`] if the file cannot be created, for example because it exists.
    pub fn create(pid: Pid) -> Result<Self, PerfMapError> {
        PerfMapPlace::new(pid)?.create()
    }

    /// Writes all lines of a map that stays. Returns the file as it is then.
    ///
    /// # Errors
    /// [`PerfMapError`] if the file cannot be written; it is removed then.
    pub fn finish(mut self, lines: &str) -> Result<WrittenMap, PerfMapError> {
        self.write(lines)?;
        let status = fstat(&self.file).map_err(|error| self.place.error("write to", error))?;
        self.is_kept = true;
        Ok(WrittenMap::new(&status))
    }

    fn write(&mut self, lines: &str) -> Result<(), PerfMapError> {
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|source| self.place.error("write to", source))
    }

    /// Adds the names of stubs that were added since the last call.
    ///
    /// # Errors
    /// [`PerfMapError`] if the file cannot be written.
    pub fn add(&mut self, tagged: &Tagged) -> Result<(), PerfMapError> {
        let code = tagged.tags.unwinding.described_code();
        let mut lines = String::new();
        for piece in code.get(self.pieces..).unwrap_or_default() {
            for (range, name) in tagged.tags.code.names_in(piece) {
                // A name extends to the end of its line.
                let name = name.replace(['\n', '\r'], " ");
                let size = range.end - range.start;
                lines += &format!("{:x} {size:x} {name}\n", range.start);
            }
        }
        self.pieces = code.len();
        self.write(&lines)
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let PerfMapPlace { folder, name, .. } = &self.place;
        let there = statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let is_ours = fstat(&self.file).ok().zip(there.ok()).is_some_and(|(ours, there)| {
            (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        });
        if is_ours {
            // The file may have been removed meanwhile.
            let _ = unlinkat(folder, name.as_str(), AtFlags::empty());
        }
    }
}

/// Numbers in a line of a process's status file (proc(5)).
fn status(pid: Pid, name: &str) -> Option<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
    numbers.split_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_that_were_there_before_are_removed() {
        let place = PerfMapPlace::new(Pid::this()).unwrap();
        let path = std::path::Path::new("/tmp").join(&place.name);
        std::os::unix::fs::symlink("missing", &path).unwrap();
        place.remove_old().unwrap();
        assert_eq!(place.check_absent().unwrap_err().source.kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "old").unwrap();
        place.remove_old().unwrap();
        place.check_absent().unwrap();
        let written = place.create().unwrap().finish("1000 10 new\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1000 10 new\n");
        let place = PerfMapPlace::new(Pid::this()).unwrap();
        std::fs::write(&path, "of the program\n").unwrap();
        place.remove_written(written).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"of the program\n");
        std::fs::remove_file(&path).unwrap();
        let written = place.create().unwrap().finish("1000 10 new\n").unwrap();
        PerfMapPlace::new(Pid::this()).unwrap().remove_written(written).unwrap();
        assert!(!path.exists());
        drop(PerfMap::create(Pid::this()).unwrap());
        assert!(!path.exists());
    }
}
