//! Writes a map of code without a file for `perf` (`tools/perf/Documentation/jit-interface.txt` of
//! Linux). The file `/tmp/perf-PID.map` has the first address, size and name of each code range,
//! such as the stubs of a function.
//!
//! The file is written to the directory that the process sees as `/tmp`. That is usually a folder
//! that everyone may write to, but a process can mount any folder there in its own mount namespace,
//! and the controller may run as root. So the file is created and removed with the process's rights
//! and without capabilities ([`FileRights`]): the controller can do nothing that the process's user
//! could not do. The file is always created new; an existing file or link is not followed,
//! overwritten or trusted. `perf` reads the file only if it belongs to the user who runs `perf`;
//! its owner is the process's user. Unless the map is to be kept, the file is removed at the end if
//! it is still the same file.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hmtt_paths::{FileRights, Folder, is_regular};
use nix::unistd::Pid;
use rustix::fs::{Stat, fstat};

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
    folder: Folder,
    name: String,
    rights: FileRights,
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

/// Identity and state of a map file directly after it was written.
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

impl PerfMapPlace {
    /// The place for a process that has not ended.
    ///
    /// # Errors
    /// [`PerfMapError`] if its directory cannot be opened.
    pub fn new(pid: Pid) -> Result<Self, PerfMapError> {
        let inner = status(pid, "NSpid:").and_then(|ids| ids.last().copied());
        let name = format!("perf-{}.map", inner.unwrap_or(pid.as_raw().cast_unsigned()));
        let open = || {
            let thread = live_thread(pid);
            let rights = FileRights::of_process(thread.as_raw())?;
            let root = Folder::open(Path::new(&format!("/proc/{thread}/root")))?;
            let folder = rights.act(|| root.folder(Path::new("tmp")))?;
            Ok((folder, rights))
        };
        match open() {
            Ok((folder, rights)) => Ok(PerfMapPlace { pid, folder, name, rights }),
            Err(source) => Err(PerfMapError { pid, name, operation: "create", source }),
        }
    }

    fn error(&self, operation: &'static str, source: impl Into<io::Error>) -> PerfMapError {
        let (pid, name) = (self.pid, self.name.clone());
        PerfMapError { pid, name, operation, source: source.into() }
    }

    /// Checks that no file has the name yet.
    ///
    /// # Errors
    /// [`PerfMapError`] if a file has the name, or the check fails.
    pub fn check_absent(&self) -> Result<(), PerfMapError> {
        match self.status() {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(self.error("create", rustix::io::Errno::EXIST)),
            Err(error) => Err(self.error("create", error)),
        }
    }

    /// Status of the file that has the name.
    fn status(&self) -> io::Result<Option<Stat>> {
        self.rights.act(|| self.folder.status_of(self.name.as_ref()))
    }

    /// Removes the file that has the name.
    fn remove(&self) -> Result<(), PerfMapError> {
        let removed = self.rights.act(|| self.folder.remove_file(self.name.as_ref()));
        removed.map_err(|error| self.error("remove", error))
    }

    /// Removes a regular file of the process's user, which an earlier process with the same number
    /// has left.
    ///
    /// # Errors
    /// [`PerfMapError`] if it cannot be removed.
    pub fn remove_old(&self) -> Result<(), PerfMapError> {
        let is_old = self.status().is_ok_and(|there| {
            there.is_some_and(|there| is_regular(&there) && there.st_uid == self.rights.user())
        });
        if is_old { self.remove() } else { Ok(()) }
    }

    /// Removes the map file of an earlier program of the process. A file that was changed or
    /// replaced since then stays.
    ///
    /// # Errors
    /// [`PerfMapError`] if it cannot be removed.
    pub fn remove_written(&self, written: WrittenMap) -> Result<(), PerfMapError> {
        let there = self.status().ok().flatten();
        let is_written = there.is_some_and(|there| WrittenMap::new(&there) == written);
        if is_written { self.remove() } else { Ok(()) }
    }

    /// Creates an empty map.
    ///
    /// # Errors
    /// [`PerfMapError`] if the file cannot be created, for example because it exists.
    pub fn create(self) -> Result<PerfMap, PerfMapError> {
        let file = self.rights.act(|| {
            let file = self.folder.create_file(self.name.as_ref(), 0o600)?;
            // The mode allows everyone to read the names of the process's functions.
            file.set_permissions(Permissions::from_mode(0o644))?;
            Ok(file)
        });
        let file = file.map_err(|error| self.error("create", error))?;
        Ok(PerfMap { place: self, file, is_kept: false, pieces: 0 })
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

    /// Writes all lines of a map that is to be kept. Returns the state of the file.
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
                // A name extends to the end of its line, so it must not contain a line break.
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
        let there = self.place.status().ok().flatten();
        let is_ours = fstat(&self.file).ok().zip(there).is_some_and(|(ours, there)| {
            (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        });
        if is_ours {
            // Errors are ignored: the file may have been removed by others.
            let _ = self.place.remove();
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
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

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

    /// A child process, which is ended.
    struct Child(std::process::Child);

    impl Child {
        /// Starts a program as a user who is not root, and waits until it prints a line.
        fn start(command: &mut Command) -> Option<Child> {
            let command = command.uid(65534).gid(65534).stdout(Stdio::piped());
            let mut child = Child(command.spawn().ok()?);
            let mut line = String::new();
            let output = child.0.stdout.as_mut()?;
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).ok()?;
            (line == "began\n").then_some(child)
        }

        fn pid(&self) -> Pid {
            Pid::from_raw(self.0.id().cast_signed())
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_map_is_created_where_the_user_of_the_process_may_create_it() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root follows processes of other users");
            return;
        }
        let mut command = Command::new("sh");
        let child = Child::start(command.args(["-c", "echo began; exec sleep 600"])).unwrap();
        let map = PerfMap::create(child.pid()).unwrap();
        let path = Path::new("/tmp").join(&map.place.name);
        let status = path.metadata().unwrap();
        assert_eq!((status.uid(), status.gid(), status.mode() & 0o777), (65534, 65534, 0o644));
        drop(map);
        assert!(!path.exists());
        // A folder of root at the same path, in a namespace of the process's own.
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let script = "mount --bind \"$1\" /tmp && echo began && exec sleep 600";
        let mut command = Command::new("unshare");
        command.args(["-U", "-r", "-m", "sh", "-c", script, "sh"]).arg(folder.path());
        let Some(child) = Child::start(&mut command) else {
            println!("skipped: no user namespaces");
            return;
        };
        let error = PerfMap::create(child.pid()).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::PermissionDenied);
        let name = PerfMapPlace::new(child.pid()).unwrap().name;
        std::fs::write(folder.path().join(&name), "of root").unwrap();
        std::os::unix::fs::chown(folder.path().join(&name), Some(65534), None).unwrap();
        assert!(PerfMapPlace::new(child.pid()).unwrap().remove_old().is_err());
        assert!(folder.path().join(&name).exists());
    }
}
