//! Drops the privileges of the process, except those that it still needs when its sockets are open.
//!
//! Order of the calls:
//! 1. [`isolate_process`] before anything is opened,
//! 2. [`User::find`] while libraries of the name service can still be loaded,
//! 3. [`drop_privileges`] when the sockets and the directory of the files are open,
//! 4. [`drop_remaining_privileges`] when the first file is open.
//!
//! Capabilities belong to threads, so all calls must be made before a second thread starts.
//!
//! Invariant: a dropped privilege cannot be regained (`no_new_privs`, an empty bounding set), and
//! the process keeps at most `CAP_DAC_OVERRIDE`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, RawFd};

use nix::unistd::{
    AccessFlags, Gid, Uid, faccessat, getgrouplist, setgroups, setresgid, setresuid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Number of standard descriptors: input, output and error.
const STANDARD_DESCRIPTORS: u32 = 3;

/// Why privileges could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("there is no user {0}")]
    NoUser(String),
    /// The database of users cannot be read.
    #[error("cannot look up user {0}")]
    Lookup(String, #[source] io::Error),
    /// Only root may change to another user.
    #[error("cannot become user {name}: cannot {operation}; -Z needs to be started by root")]
    Become {
        /// User name or number from the command line.
        name: String,
        /// Operation that failed, for the message.
        operation: &'static str,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
    /// A system call that needs no privilege failed.
    #[error("cannot {operation}")]
    System {
        /// Operation that failed, for the message.
        operation: &'static str,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
}

fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> PrivilegeError {
    move |source| PrivilegeError::System { operation, source: source.into() }
}

/// Isolates this process from other processes of its user. Other processes may not trace it, read
/// its memory or copy its descriptors (`pidfd_getfd`). The process writes no core dump, because a
/// core dump would contain frames. Also closes all inherited descriptors except standard input,
/// output and error, and `kept`.
///
/// # Errors
/// If `prctl` fails.
pub fn isolate_process(kept: Option<RawFd>) -> Result<(), PrivilegeError> {
    nix::sys::prctl::set_dumpable(false).map_err(system("refuse to be traced"))?;
    let kept = kept.and_then(|kept| u32::try_from(kept).ok());
    match kept.filter(|kept| *kept >= STANDARD_DESCRIPTORS) {
        None => close_range(STANDARD_DESCRIPTORS, u32::MAX),
        Some(kept) => {
            if kept > STANDARD_DESCRIPTORS {
                close_range(STANDARD_DESCRIPTORS, kept - 1);
            }
            close_range(kept.saturating_add(1), u32::MAX);
        }
    }
    Ok(())
}

/// Closes the descriptors from `first` to `last`, inclusive. Kernels before 5.9 do not have the
/// call; inherited descriptors stay open there.
fn close_range(first: u32, last: u32) {
    // SAFETY: the call accesses no memory. This process has not opened a descriptor yet, so no
    // owner loses one.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// A user that the process can change to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name or number from the command line.
    pub name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    /// Finds a user by name or number. A number that is not in the user database stands for a user
    /// whose only group has the same number.
    ///
    /// # Errors
    /// If there is no such user, or the database cannot be read.
    pub fn find(name: &str) -> Result<Self, PrivilegeError> {
        let lookup = |error: nix::Error| PrivilegeError::Lookup(name.into(), error.into());
        let number: Option<u32> = name.parse().ok();
        let user = match number {
            Some(number) => nix::unistd::User::from_uid(Uid::from_raw(number)),
            None => nix::unistd::User::from_name(name),
        };
        let (uid, gid, groups) = match (user.map_err(lookup)?, number) {
            (Some(user), _) => {
                let known = CString::new(user.name.as_str())
                    .map_err(|error| PrivilegeError::Lookup(name.into(), error.into()))?;
                (user.uid, user.gid, getgrouplist(&known, user.gid).map_err(lookup)?)
            }
            // The system calls take the value -1 for "unchanged".
            (None, Some(u32::MAX)) | (None, None) => {
                return Err(PrivilegeError::NoUser(name.into()));
            }
            (None, Some(number)) => {
                let gid = Gid::from_raw(number);
                (Uid::from_raw(number), gid, vec![gid])
            }
        };
        Ok(User { name: name.into(), uid, gid, groups })
    }

    /// Changes to the user, permanently (real, effective and saved ids).
    fn enter(&self) -> Result<(), PrivilegeError> {
        let failed = |operation| {
            move |error: nix::Error| PrivilegeError::Become {
                name: self.name.clone(),
                operation,
                source: error.into(),
            }
        };
        setgroups(&self.groups).map_err(failed("set the groups"))?;
        setresgid(self.gid, self.gid, self.gid).map_err(failed("set the group"))?;
        setresuid(self.uid, self.uid, self.uid).map_err(failed("set the user"))
    }
}

/// Drops all capabilities except `CAP_DAC_OVERRIDE`, and changes to `user`. With a user, that
/// capability is dropped too.
///
/// # Errors
/// If a system call fails.
pub fn drop_privileges(user: Option<&User>) -> Result<(), PrivilegeError> {
    let kept = match user {
        None => capabilities(None).map_err(system("read capabilities"))?.permitted,
        Some(_) => CapabilitySet::empty(),
    };
    rustix::thread::set_no_new_privs(true).map_err(system("refuse new privileges"))?;
    empty_bounding_set()?;
    if let Some(user) = user {
        user.enter()?;
        // A change of user resets the dumpable flag to a system default.
        nix::sys::prctl::set_dumpable(false).map_err(system("refuse to be traced"))?;
    }
    clear_ambient_capability_set().map_err(system("clear the ambient capabilities"))?;
    keep_only(kept & CapabilitySet::DAC_OVERRIDE)
}

/// Drops `CAP_DAC_OVERRIDE`, unless later files have to be created in a directory in which this
/// process may create files only with that capability.
///
/// # Errors
/// If a system call fails.
pub fn drop_remaining_privileges(later_files: Option<impl AsFd>) -> Result<(), PrivilegeError> {
    let kept = capabilities(None).map_err(system("read capabilities"))?.permitted;
    set(CapabilitySet::empty(), kept)?;
    let is_needed = later_files.is_some_and(|directory| {
        let flags = AccessFlags::W_OK | AccessFlags::X_OK;
        faccessat(directory, ".", flags, nix::fcntl::AtFlags::AT_EACCESS).is_err()
    });
    if is_needed { keep_only(kept) } else { keep_only(CapabilitySet::empty()) }
}

/// Removes all capabilities from the bounding set, which needs `CAP_SETPCAP`. Without that
/// capability, only `no_new_privs` keeps an executed program from gaining capabilities.
fn empty_bounding_set() -> Result<(), PrivilegeError> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            // The kernel does not know the capability, or does not permit the change.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(system("empty the bounding set")(error)),
        }
    }
    Ok(())
}

fn keep_only(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    set(kept, kept)
}

fn set(effective: CapabilitySet, permitted: CapabilitySet) -> Result<(), PrivilegeError> {
    let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(system("give up capabilities"))
}
