//! Acts with the rights of another process on files.
//!
//! A process can make any folder appear at a path, by mounting it there in its own namespace, even
//! a folder to which the process may not write. So operations in folders that a process chooses are
//! done with the rights of that process. A separate thread takes the user and the groups of the
//! process, gives up all capabilities, acts, and ends.

use std::io;

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

/// The user and the groups by which the kernel decides what a process may do with files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRights {
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
}

impl FileRights {
    /// The rights of a process (`/proc/PID/status`, proc(5)), without its capabilities.
    ///
    /// # Errors
    /// An error if the process has ended.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        FileRights::read(&format!("/proc/{pid}/status"))
    }

    fn read(path: &str) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let numbers = |name: &str| -> Option<Vec<u32>> {
            let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
            numbers.split_whitespace().map(|number| number.parse().ok()).collect()
        };
        // The four numbers are the real, effective, saved and file-system ID.
        let of_files = |name| numbers(name)?.get(3).copied();
        let rights = || {
            let groups = numbers("Groups:")?.into_iter().map(Gid::from_raw).collect();
            let (user, group) = (of_files("Uid:")?, of_files("Gid:")?);
            Some(FileRights { user: Uid::from_raw(user), group: Gid::from_raw(group), groups })
        };
        rights()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: no user")))
    }

    /// Number of the file-system user.
    pub fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// Calls `act` with these rights. A process without capabilities calls it with its own rights.
    ///
    /// # Errors
    /// The error of `act`; or an error if this process may not take the rights.
    pub fn act<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        if capabilities(None)?.effective.is_empty() {
            return act();
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || {
                self.take()?;
                act()
            })?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
        })
    }

    /// Takes the rights for the calling thread only, and gives up its capabilities.
    fn take(&self) -> io::Result<()> {
        let own = FileRights::read("/proc/thread-self/status")?;
        // If the groups are equal, no permission to set them is needed.
        if self.groups != own.groups {
            set_thread_groups(&self.groups)?;
        }
        let (user, group) = (self.user.as_raw().into(), self.group.as_raw().into());
        nix::unistd::setfsgid(group);
        nix::unistd::setfsuid(user);
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets)?;
        // Each call returns the previous ID, and no error. So the second calls show whether the
        // first ones succeeded.
        let is_taken = nix::unistd::setfsgid(group) == group && nix::unistd::setfsuid(user) == user;
        if is_taken { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn nothing_is_created_that_the_user_may_not_create() {
        let nobody = Uid::from_raw(65534);
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can take the rights of others");
            return;
        }
        let rights = FileRights { user: nobody, group: Gid::from_raw(65534), groups: Vec::new() };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let create = || rights.act(|| std::fs::File::create_new(&file).map(drop));
        assert_eq!(create().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(!file.exists());
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        create().unwrap();
        let status = file.metadata().unwrap();
        assert_eq!((status.uid(), status.gid()), (65534, 65534));
        // The calling thread still has its own rights.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::remove_file(&file).unwrap();
        // The rights of root without capabilities are not enough for a folder of another user.
        let root = FileRights { user: Uid::ROOT, group: Gid::ROOT, groups: Vec::new() };
        std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
        assert!(root.act(|| std::fs::File::create_new(&file)).is_err());
    }
}
