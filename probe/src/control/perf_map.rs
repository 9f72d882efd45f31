//! Writes a map of stubs for `perf` (`tools/perf/Documentation/jit-interface.txt` of Linux): `/tmp/perf-PID.map`, with
//! first address, size and name of each function's stubs.
//!
//! The directory is the process's own `/tmp`, which everyone may write to, and the controller may run as root. So the
//! file is always created, and nothing that is already there is followed, overwritten or trusted. `perf` reads the file
//! only if it belongs to the user who runs `perf`, so the file gets the process's user as its owner. It is removed at
//! the end if it is still the same file.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use nix::unistd::Pid;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, fstat, openat2, statat, unlinkat,
};

use super::Tagged;

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

/// A map that is being written.
#[derive(Debug)]
pub struct PerfMap {
    pid: Pid,
    folder: OwnedFd,
    name: String,
    file: File,
    /// Number of code ranges that are in the map.
    pieces: usize,
}

/// Follow no links: the process may have made them.
const INSIDE: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl PerfMap {
    /// Creates an empty map for a process.
    ///
    /// # Errors
    /// [`PerfMapError`] if the file cannot be created, for example because it exists.
    pub fn create(pid: Pid) -> Result<Self, PerfMapError> {
        let inner = status(pid, "NSpid:").and_then(|ids| ids.last().copied());
        let name = format!("perf-{}.map", inner.unwrap_or(pid.as_raw().cast_unsigned()));
        let failed =
            |operation, source| PerfMapError { pid, name: name.clone(), operation, source };
        let create = |source: rustix::io::Errno| failed("create", source.into());
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = format!("/proc/{pid}/root");
        let root = rustix::fs::open(root, folder, Mode::empty()).map_err(create)?;
        let folder = openat2(&root, "tmp", folder, Mode::empty(), INSIDE).map_err(create)?;
        let how =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2(&folder, name.as_str(), how, Mode::RUSR | Mode::WUSR, INSIDE);
        let file = File::from(file.map_err(create)?);
        let map = PerfMap { pid, folder, name: name.clone(), file, pieces: 0 };
        // Whoever may read the process's memory may read its functions' names.
        let all = Permissions::from_mode(0o644);
        map.file.set_permissions(all).map_err(|error| failed("create", error))?;
        let (user, group) = (status(pid, "Uid:"), status(pid, "Gid:"));
        // The kernel reports real, effective, saved and file-system ID.
        let effective = |ids: Option<Vec<u32>>| ids.and_then(|ids| ids.get(1).copied());
        let (user, group) =
            (effective(user).map(Uid::from_raw), effective(group).map(Gid::from_raw));
        fchown(&map.file, user, group).map_err(|error| failed("give its user", error.into()))?;
        Ok(map)
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
        let written = self.file.write_all(lines.as_bytes());
        let (pid, name) = (self.pid, self.name.clone());
        written.map_err(|source| PerfMapError { pid, name, operation: "write to", source })
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        let name = self.name.as_str();
        let there = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_ours = fstat(&self.file).ok().zip(there.ok()).is_some_and(|(ours, there)| {
            (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        });
        if is_ours {
            // The file may have been removed meanwhile.
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

/// Numbers in a line of a process's status file (proc(5)).
fn status(pid: Pid, name: &str) -> Option<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
    numbers.split_whitespace().map(|number| number.parse().ok()).collect()
}
