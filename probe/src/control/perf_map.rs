//! Writes a map of stubs for `perf` (`tools/perf/Documentation/jit-interface.txt` of Linux): `/tmp/perf-PID.map`, one
//! line for each function's stubs with first address, size and name.
//!
//! The folder is the process's own `/tmp`, which anybody may write to, and we may be root. So the file is created, never
//! opened: nothing there is followed, overwritten or trusted. `perf` reads it only if it is of the user who runs
//! it, so it becomes the process's user's. It is removed at the end if it is still the same file.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use nix::unistd::Pid;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, fstat, openat2, statat, unlinkat,
};

use super::Tagged;

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
#[error("process {pid}: cannot {operation} its /tmp/{name}")]
pub struct PerfMapError {
    /// The process.
    pub pid: Pid,
    /// What the file is called.
    pub name: String,
    /// What was tried.
    pub operation: &'static str,
    /// Why not.
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
    /// How many pieces of code are in it.
    pieces: usize,
}

/// Follow nothing that the process may have put there.
const INSIDE: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl PerfMap {
    /// Creates the map of a process, without names.
    ///
    /// # Errors
    /// [`PerfMapError`], among others if there is such a file.
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
        // Whoever may read the process's memory may know its functions' names.
        let all = Permissions::from_mode(0o644);
        map.file.set_permissions(all).map_err(|error| failed("create", error))?;
        let (user, group) = (status(pid, "Uid:"), status(pid, "Gid:"));
        // Real, effective, saved, of files.
        let effective = |ids: Option<Vec<u32>>| ids.and_then(|ids| ids.get(1).copied());
        let (user, group) =
            (effective(user).map(Uid::from_raw), effective(group).map(Gid::from_raw));
        fchown(&map.file, user, group).map_err(|error| failed("give its user", error.into()))?;
        Ok(map)
    }

    /// Adds the names of stubs that are new.
    ///
    /// # Errors
    /// [`PerfMapError`] if they cannot be written.
    pub fn add(&mut self, tagged: &Tagged) -> Result<(), PerfMapError> {
        let code = tagged.added_code();
        let mut lines = String::new();
        for piece in code.get(self.pieces..).unwrap_or_default() {
            for (range, name) in tagged.names_in(piece) {
                // A name is the rest of its line.
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
            // It may have been removed meanwhile.
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

/// Numbers that the kernel tells of a process (proc(5)).
fn status(pid: Pid, name: &str) -> Option<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
    numbers.split_whitespace().map(|number| number.parse().ok()).collect()
}
