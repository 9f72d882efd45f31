//! Decides by the status of a file whether it may be used.

use std::io::{self, ErrorKind};

use rustix::fs::{FileType, Mode, Stat};

/// Number of the effective user of this process.
pub fn effective_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether a file is a regular one.
pub fn is_regular(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
}

/// Accepts a file or folder that belongs to the effective user.
///
/// # Errors
/// `PermissionDenied` if it belongs to another user.
pub fn check_owner(status: &Stat) -> io::Result<()> {
    match (status.st_uid, effective_user()) {
        (owner, user) if owner == user => Ok(()),
        (owner, user) => {
            Err(refused(format!("it belongs to user {owner}, and this process is of user {user}")))
        }
    }
}

/// Accepts a file or folder that belongs to the effective user, and to which no other user can
/// write.
///
/// # Errors
/// `PermissionDenied` if it belongs to another user, or other users can write to it.
pub fn check_private(status: &Stat) -> io::Result<()> {
    check_owner(status)?;
    let mode = Mode::from_raw_mode(status.st_mode);
    if mode.intersects(Mode::WGRP | Mode::WOTH) {
        return Err(refused(format!("other users can write to it (mode {:03o})", mode.bits())));
    }
    Ok(())
}

/// Accepts a regular file that belongs to the effective user, to which no other user can write, and
/// which has one name.
///
/// # Errors
/// `PermissionDenied` if it belongs to another user, other users can write to it, or it has another
/// name; `InvalidInput` if it is not a regular file.
pub fn check_own_file(status: &Stat) -> io::Result<()> {
    check_regular(status)?;
    check_private(status)?;
    check_one_name(status)
}

/// Accepts a file that has no further names (hard links).
pub(crate) fn check_one_name(status: &Stat) -> io::Result<()> {
    match status.st_nlink {
        0 | 1 => Ok(()),
        names => Err(refused(format!("it is a file with {names} names (hard links)"))),
    }
}

/// Accepts a regular file.
pub(crate) fn check_regular(status: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(()),
        other => {
            let text = format!("it is a {}, not a regular file", type_name(other));
            Err(io::Error::new(ErrorKind::InvalidInput, text))
        }
    }
}

/// The error for a file that may not be used.
pub(crate) fn refused(text: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, text.into())
}

/// The error for a path with a symbolic link, which is not followed.
pub(crate) fn link() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "a symbolic link, which is not followed")
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Directory => "folder",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        _ => "device",
    }
}
