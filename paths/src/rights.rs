//! Acts with the rights that another process has on files.
//!
//! A process can have any folder at a path, by mounting it there in a namespace of its own,
//! although it may not write to that folder. What is done for a process in folders that it chooses
//! is done with its rights: a thread of its own takes the user, the groups and no capability, and
//! ends.

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
    /// The process has ended.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        FileRights::read(&format!("/proc/{pid}/status"))
    }

    fn read(path: &str) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let numbers = |name: &str| -> Option<Vec<u32>> {
            let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
            numbers.split_whitespace().map(|number| number.parse().ok()).collect()
        };
        // Real, effective, saved and file-system ID.
        let of_files = |name| numbers(name)?.get(3).copied();
        let rights = || {
            let groups = numbers("Groups:")?.into_iter().map(Gid::from_raw).collect();
            let (user, group) = (of_files("Uid:")?, of_files("Gid:")?);
            Some(FileRights { user: Uid::from_raw(user), group: Gid::from_raw(group), groups })
        };
        rights()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: no user")))
    }

    /// The user.
    pub fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// Does something with these rights. A process without capabilities acts with its own.
    ///
    /// # Errors
    /// That of what is done; or this process may not take the rights.
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

    /// Takes the rights for the calling thread alone, and gives up its capabilities.
    fn take(&self) -> io::Result<()> {
        let own = FileRights::read("/proc/thread-self/status")?;
        // Where nothing differs, nothing need be allowed.
        if self.groups != own.groups {
            set_thread_groups(&self.groups)?;
        }
        let (user, group) = (self.user.as_raw().into(), self.group.as_raw().into());
        nix::unistd::setfsgid(group);
        nix::unistd::setfsuid(user);
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets)?;
        // The calls report the ID that was in effect before, and no error.
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
        // This thread has its rights.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::remove_file(&file).unwrap();
        // Those of root without capabilities are not enough for a folder of somebody else.
        let root = FileRights { user: Uid::ROOT, group: Gid::ROOT, groups: Vec::new() };
        std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
        assert!(root.act(|| std::fs::File::create_new(&file)).is_err());
    }
}
