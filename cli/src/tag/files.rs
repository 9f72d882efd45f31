//! Creates the files that `hmtt tag` writes, without overwriting files of other users or programs.
//!
//! Files are created before the program starts, so that it does not run without a usable output. A
//! regular file is always a new file that only its owner may read: names and counts show what a
//! program does. With `--overwrite` the old name is removed first, so that other hard links to the
//! old file keep their content.
//!
//! A user who can write the directory can exchange its names at any time. Invariant: no symbolic
//! link is followed in the last component of a path, a name is opened once, and the type of the
//! file is determined by the descriptor alone. Named pipes, character devices and inherited
//! descriptors (`/dev/stdout`, `/dev/fd/N`) are opened as they are.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use hmtt_host::files::{Entry, Identity, Removal};
use hmtt_host::receive::{descriptor, inherited};
use hmtt_probe::control::TagError;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};

/// Permissions of a new file, before the umask is applied.
const MODE: u32 = 0o600;

/// An open output file.
#[derive(Debug)]
pub struct Created {
    pub path: PathBuf,
    pub file: File,
    /// Name and identity of a new regular file, which is removed if tagging does not begin.
    new: Option<(Entry, Identity)>,
}

impl Created {
    /// Creates a file, or opens a pipe, device or descriptor. Never blocks.
    ///
    /// # Errors
    /// [`TagError::Output`], with advice.
    pub fn new(path: &Path, overwrite: bool) -> Result<Created, TagError> {
        let opened = match descriptor(path).filter(|_| path.is_absolute()) {
            Some(number) => writable(number).map(|file| (file, None)),
            None => open(path, overwrite),
        };
        match opened {
            Ok((file, new)) => Ok(Created { path: path.into(), file, new }),
            Err(source) => Err(TagError::Output { path: path.into(), source }),
        }
    }

    /// Writes the whole content of the file.
    pub fn write(&self, content: impl AsRef<[u8]>) -> Result<(), TagError> {
        let failed = |source| TagError::Output { path: self.path.clone(), source };
        (&self.file).write_all(content.as_ref()).map_err(failed)
    }

    /// Name and identity of the file to be removed if tagging does not begin.
    pub fn removable(&self) -> Option<(Entry, Identity)> {
        self.new.clone()
    }
}

/// Opens an inherited descriptor that can be written.
fn writable(number: i32) -> io::Result<File> {
    let file = inherited(number).map_err(|_| io::Error::other("it is not open"))?;
    match fcntl_getfl(&file)? & OFlags::RWMODE {
        OFlags::RDONLY => Err(io::Error::other("it is not open for writing")),
        _ => Ok(file),
    }
}

/// Creates a file, or opens the pipe or device of that name.
fn open(path: &Path, overwrite: bool) -> io::Result<(File, Option<(Entry, Identity)>)> {
    let directory =
        || io::Error::new(ErrorKind::IsADirectory, "it is a directory; name a file in it");
    let entry = Entry::find(path).ok_or_else(directory)?.map_err(|error| explained(path, error))?;
    match entry.kind()? {
        Some(kind @ (FileType::Fifo | FileType::CharacterDevice)) => {
            Ok((open_stream(&entry, kind)?, None))
        }
        Some(FileType::Directory) => Err(directory()),
        Some(FileType::Symlink) => {
            Err(io::Error::other("it is a symbolic link; name the file that it leads to"))
        }
        None | Some(FileType::RegularFile) => {
            let created = create(&entry, overwrite).map_err(|error| explained(path, error))?;
            let identity = Identity::from_file(&created)?;
            Ok((created, Some((entry, identity))))
        }
        Some(_) => Err(io::Error::other("it is not a file, named pipe or character device")),
    }
}

/// Creates a file under a name that does not exist. Fails if another process takes the name
/// meanwhile.
fn create(entry: &Entry, overwrite: bool) -> io::Result<File> {
    if overwrite && entry.remove_unless_live(None)? == Removal::Live {
        return Err(io::Error::new(ErrorKind::ResourceBusy, "another hmtt is writing it"));
    }
    entry.create(MODE)
}

/// Opens a named pipe or a device, and checks that the name was not exchanged.
fn open_stream(entry: &Entry, kind: FileType) -> io::Result<File> {
    let file = entry.open(OFlags::WRONLY).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) if kind == FileType::Fifo => {
            io::Error::other("it is a named pipe without a reader; start its reader first")
        }
        _ => error,
    })?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != kind {
        return Err(io::Error::other("it was replaced while it was opened"));
    }
    if kind == FileType::Fifo && entry.is_foreign(&file)? {
        return Err(io::Error::other(
            "it is a named pipe of another user in a directory that everybody may write to",
        ));
    }
    // Only the opening must not block; writing may.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Checks that a file that is written later does not exist.
///
/// # Errors
/// [`TagError::Output`]
pub fn check_absent(path: &Path, overwrite: bool) -> Result<(), TagError> {
    if overwrite || fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let source = explained(path, ErrorKind::AlreadyExists.into());
    Err(TagError::Output { path: path.into(), source })
}

/// Adds advice to an error of creating a file.
fn explained(path: &Path, error: io::Error) -> io::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let text = match error.kind() {
        _ if path.is_dir() => "it is a directory; name a file in it".into(),
        ErrorKind::AlreadyExists => "it exists; give --overwrite to replace it".into(),
        ErrorKind::NotFound => format!("the directory {} does not exist", folder.display()),
        ErrorKind::PermissionDenied => {
            format!("files cannot be written there by this user (directory {})", folder.display())
        }
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}

/// New files that are removed when dropped, unless they are kept.
#[derive(Debug)]
pub struct NewFiles(Vec<(Entry, Identity)>);

impl NewFiles {
    pub fn new(files: Vec<(Entry, Identity)>) -> NewFiles {
        NewFiles(files)
    }

    /// Keeps the files, once tagging has begun.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for (entry, identity) in &self.0 {
            let _ = entry.remove_if(*identity);
        }
    }
}
