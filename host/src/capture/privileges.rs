//! The rights of a process to those it still needs once its sockets are open.
//!
//! In this order: [`shut_out`] before anything is opened, [`User::find`] while libraries of the name service may
//! still be loaded, [`give_up`] once sockets and the directory of the files are open, and
//! [`give_up_the_rest`] once the first file is. Capabilities belong to threads: all of it comes before another
//! thread is started.
//!
//! Invariant: no right that was given up can be won back (`no_new_privs`, an empty bounding set), and what is
//! kept is at most `CAP_DAC_OVERRIDE`.

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

/// Descriptors that a program is always started with.
const STANDARD_DESCRIPTORS: u32 = 3;

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("there is no user {0}")]
    NoUser(String),
    /// The database of users cannot be read.
    #[error("cannot look up user {0}")]
    Lookup(String, #[source] io::Error),
    /// Only root may become somebody else.
    #[error("cannot become user {name}: cannot {operation}; -Z needs to be started by root")]
    Become {
        /// The user.
        name: String,
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A system call failed that needs no privilege.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> PrivilegeError {
    move |source| PrivilegeError::System { operation, source: source.into() }
}

/// Closes this process to others of its user: none may trace it, read its memory or copy its descriptors
/// (`pidfd_getfd`), and it leaves no core dump, which would hold frames. Also closes all descriptors
/// that were inherited, but for standard input, output and error, and `kept`.
pub fn shut_out(kept: Option<RawFd>) -> Result<(), PrivilegeError> {
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

/// Closes descriptors, the last one included. Kernels before 5.9 cannot; what was inherited stays open there.
fn close_range(first: u32, last: u32) {
    // SAFETY: touches no memory. Nothing of this process is open yet, so no owner loses a descriptor.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// A user to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// As the user was named.
    pub name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    /// Looks a user up by name or number. A number that the database does not have stands for a user
    /// whose group has the same number, and who is in no other.
    pub fn find(name: &str) -> Result<Self, PrivilegeError> {
        let lookup = |error: nix::Error| PrivilegeError::Lookup(name.into(), error.into());
        let number: Option<u32> = name.parse().ok();
        let found = match number {
            Some(number) => nix::unistd::User::from_uid(Uid::from_raw(number)),
            None => nix::unistd::User::from_name(name),
        };
        let (uid, gid, groups) = match (found.map_err(lookup)?, number) {
            (Some(user), _) => {
                let known = CString::new(user.name.as_str())
                    .map_err(|error| PrivilegeError::Lookup(name.into(), error.into()))?;
                (user.uid, user.gid, getgrouplist(&known, user.gid).map_err(lookup)?)
            }
            // The system calls take it for "as it is".
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

    /// Becomes the user, for good.
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

/// Gives up every capability but that of writing where root may, and becomes `user`, who keeps not even
/// that.
pub fn give_up(user: Option<&User>) -> Result<(), PrivilegeError> {
    let kept = match user {
        None => capabilities(None).map_err(system("read capabilities"))?.permitted,
        Some(_) => CapabilitySet::empty(),
    };
    rustix::thread::set_no_new_privs(true).map_err(system("refuse new privileges"))?;
    empty_bounding_set()?;
    if let Some(user) = user {
        user.enter()?;
        // A change of user sets it to a default of the system's.
        nix::sys::prctl::set_dumpable(false).map_err(system("refuse to be traced"))?;
    }
    clear_ambient_capability_set().map_err(system("clear the ambient capabilities"))?;
    keep_only(kept & CapabilitySet::DAC_OVERRIDE)
}

/// Gives up what [`give_up`] kept, unless later files are to be created in a directory that takes them
/// only from root with that capability.
pub fn give_up_the_rest(later_files: Option<impl AsFd>) -> Result<(), PrivilegeError> {
    let kept = capabilities(None).map_err(system("read capabilities"))?.permitted;
    set(CapabilitySet::empty(), kept)?;
    let is_needed = later_files.is_some_and(|directory| {
        let flags = AccessFlags::W_OK | AccessFlags::X_OK;
        faccessat(directory, ".", flags, nix::fcntl::AtFlags::AT_EACCESS).is_err()
    });
    if is_needed { keep_only(kept) } else { keep_only(CapabilitySet::empty()) }
}

/// Removes all capabilities from the bounding set, for which `CAP_SETPCAP` is needed. Without it
/// `no_new_privs` alone keeps a program that is executed from gaining any.
fn empty_bounding_set() -> Result<(), PrivilegeError> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            // Not known to this kernel, or not permitted.
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
