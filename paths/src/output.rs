//! Creates the output files that a user names.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, openat};

use crate::folder::Folder;
use crate::resolve::{Last, last};
use crate::status::{effective_user, refused};

/// Creates a file that does not exist yet. Links in its path are followed if they belong to root or
/// to the effective user.
///
/// # Errors
/// `AlreadyExists` if the name exists, even if it is a link; or the error of creating the file.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let (folder, name) = divided(path)?;
    Folder::open_to_change(folder)?.create_file(name, mode)
}

/// Creates a file, or opens and empties an existing one. Links are followed if they belong to root
/// or to the effective user. The existing file may be a device, or a FIFO of root or of the
/// effective user.
///
/// # Errors
/// An error if the file cannot be opened or created, or if a link or FIFO belongs to another user.
pub fn create_or_replace(path: &Path, mode: u32) -> io::Result<File> {
    divided(path)?;
    let Last { folder, name, is_open_file } = last(path)?;
    let folder = Folder::from_descriptor(folder);
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOCTTY | OFlags::CLOEXEC;
    if is_open_file {
        return Ok(openat(&folder, &name, flags, Mode::empty())?.into());
    }
    if folder.status_of(&name)?.is_some_and(|status| is_foreign_fifo(&status)) {
        return Err(refused(
            "it is a FIFO or socket of another user, for which a writer would wait",
        ));
    }
    let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW;
    Ok(openat(&folder, &name, flags, Mode::from_raw_mode(mode))?.into())
}

fn is_foreign_fifo(status: &Stat) -> bool {
    let kind = FileType::from_raw_mode(status.st_mode);
    let is_waiting = matches!(kind, FileType::Fifo | FileType::Socket);
    is_waiting && status.st_uid != 0 && status.st_uid != effective_user()
}

/// Divides a path into the path of the folder and the name. A path that ends in `/` is an error.
pub(crate) fn divided(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
    let name = name.ok_or(io::ErrorKind::IsADirectory)?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    #[test]
    fn outputs_are_created_once_and_replaced_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        create(&at("new"), 0o600).unwrap().write_all(b"text").unwrap();
        symlink("new", at("link")).unwrap();
        symlink("missing", at("dangling")).unwrap();
        for name in ["new", "link", "dangling", ".", "new/"] {
            assert!(create(&at(name), 0o600).is_err(), "{name}");
        }
        create_or_replace(&at("link"), 0o600).unwrap().write_all(b"other").unwrap();
        assert_eq!(std::fs::read(at("new")).unwrap(), b"other");
        create_or_replace(&at("dangling"), 0o600).unwrap();
        assert!(at("missing").exists());
        create_or_replace(Path::new("/dev/null"), 0o600).unwrap().write_all(b"x").unwrap();
        assert!(create_or_replace(folder.path(), 0o600).is_err());
    }

    #[test]
    fn links_and_fifos_of_other_users_are_refused() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can give files to another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "own").unwrap();
        symlink("file", at("link")).unwrap();
        lchown(at("link"), Some(65534), None).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        chown(at("fifo"), Some(65534), None).unwrap();
        for name in ["link", "fifo"] {
            let error = create_or_replace(&at(name), 0o600).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}");
        }
        assert_eq!(std::fs::read(at("file")).unwrap(), b"own");
    }
}
