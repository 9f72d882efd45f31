//! Maps the window that the card watches into a process: a device, or another file.
//!
//! All threads write to the same window, because the memory bus does not distinguish threads. The
//! process maps the window, so the process must open the file. It opens the file by its path. If it
//! must not open the path, or sees another file there, it opens a descriptor of the controller.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::unistd::Pid;

use super::backing::copy_descriptor;
use super::{Shared, slots::set_gs};
use hmtt_format::memory::DEFAULT_TAG_WINDOW_LOG2;

use crate::address::RunAddr;
use crate::control::{TagError, WindowError};
use crate::ptrace::{Mapping, Stopped, StoppedThread, Traceable, mappings};
use crate::stubs::layout::PAGE_BYTES;
use crate::stubs::tags::CARD_STRIDE;

/// Size of a card's window in bytes, unless the card was built with another one.
pub const DEVICE_BYTES: u64 = 1 << DEFAULT_TAG_WINDOW_LOG2;

/// The part of a file that is the card's window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardWindow {
    /// Path of a device or another file.
    pub path: PathBuf,
    /// Offset of the window in the file, in bytes: whole pages.
    pub offset: u64,
    /// Size of the card's window in bytes; `None` for the default of 2 MiB. The file may be shorter
    /// than the window.
    pub bytes: Option<u64>,
}

impl CardWindow {
    /// Checks the window, as far as that is possible before the number of events is known.
    ///
    /// # Errors
    /// [`WindowError`] if the window cannot be used.
    pub fn check(&self) -> Result<(), WindowError> {
        check(self, &open(self)?, CARD_STRIDE).map(drop)
    }
}

/// A window that a process has mapped.
#[derive(Debug)]
pub struct Window {
    start: RunAddr,
    path: PathBuf,
    threads: BTreeSet<Pid>,
    /// Bytes that events use.
    used: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl Window {
    /// Maps a window for `events` events.
    pub fn new(
        process: &mut Stopped<'_>,
        shared: &Shared,
        window: &CardWindow,
        events: u64,
    ) -> Result<Self, TagError> {
        let needed = (events * CARD_STRIDE).max(1);
        let file = open(window)?;
        let bytes = check(window, &file, needed)?.unwrap_or(needed.next_multiple_of(PAGE_BYTES));
        let ours = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let full = std::path::absolute(&window.path).unwrap_or_else(|_| window.path.clone());
        let open = |process: &mut Stopped<'_>, path: &[u8]| open_in(process, shared, path, &file);
        let descriptor = open(process, full.as_os_str().as_bytes()).or_else(|_| {
            // While the controller can be traced, all threads of the process are stopped.
            let _open = Traceable::new();
            open(process, ours.as_bytes())
        })?;
        let start = map(process, descriptor, bytes, window.offset, &file);
        let close = (libc::SYS_close, "close the card's window");
        process.call(close, [descriptor, 0, 0, 0, 0, 0])?;
        Ok(Window { start: start?, path: full, threads: BTreeSet::new(), used: 0, bytes })
    }

    /// Reserves space for more events.
    pub fn add(&mut self, events: u64) -> Result<(), TagError> {
        self.used += events * CARD_STRIDE;
        let (path, needed, available) = (self.path.clone(), self.used, self.bytes);
        if needed > available {
            return Err(WindowError::TooSmall { path, needed, found: available }.into());
        }
        Ok(())
    }

    /// Sets `gs` of a stopped thread to the window.
    pub fn add_thread(&mut self, thread: StoppedThread<'_>) -> Result<(), TagError> {
        self.threads.insert(thread.id());
        // The tags of an earlier controller may have been removed without a change of `gs`.
        let mappings = mappings(thread.pid())?;
        let is_ours = |mapping: &Mapping, address| {
            (mapping.start..mapping.end).contains(&address) && mapping.path == self.path
        };
        set_gs(thread, self.start, |old| {
            old == self.start || mappings.iter().any(|mapping| is_ours(mapping, old))
        })
    }

    /// Whether `gs` has the address of the window.
    pub fn is_at(&self, gs: RunAddr) -> bool {
        self.start == gs
    }

    /// Whether `gs` of a thread was set.
    pub fn has_thread(&self, thread: Pid) -> bool {
        self.threads.contains(&thread)
    }

    /// Removes a thread that has ended.
    pub fn remove_thread(&mut self, thread: Pid) {
        self.threads.remove(&thread);
    }
}

/// Opens the file of a window.
pub(super) fn open(window: &CardWindow) -> Result<File, WindowError> {
    // With `O_SYNC`, device memory is mapped uncached.
    let file = File::options().read(true).write(true).custom_flags(libc::O_SYNC).open(&window.path);
    file.map_err(|error| WindowError::Open(window.path.clone(), error))
}

/// Checks that the window is large enough. Returns its size in bytes, if the size is known.
pub(super) fn check(
    window: &CardWindow,
    file: &File,
    needed: u64,
) -> Result<Option<u64>, WindowError> {
    let path = &window.path;
    if !window.offset.is_multiple_of(PAGE_BYTES) {
        return Err(WindowError::Offset { path: path.clone(), offset: window.offset });
    }
    let about = file.metadata().map_err(|error| WindowError::Open(path.clone(), error))?;
    let left = about.is_file().then(|| about.len().saturating_sub(window.offset));
    // A file may be larger than the card's window. The card does not see tags outside its window.
    let seen = window.bytes.or(left.map(|_| DEVICE_BYTES));
    let known = [left, seen].into_iter().flatten().min();
    match known.unwrap_or(DEVICE_BYTES) {
        available if available < needed => {
            Err(WindowError::TooSmall { path: path.clone(), needed, found: available })
        }
        _ => Ok(known),
    }
}

/// Opens a file in the process, and checks that the process has opened the same file as the
/// controller.
fn open_in(
    process: &mut Stopped<'_>,
    shared: &Shared,
    path: &[u8],
    file: &File,
) -> Result<u64, TagError> {
    let (pid, operation) = (process.pid, "open the card's window");
    let text = CString::new(path).unwrap_or_default();
    let place = shared.write_text(text.as_bytes_with_nul())?;
    let flags = (libc::O_RDWR | libc::O_SYNC | libc::O_CLOEXEC) as u64;
    let arguments = [libc::AT_FDCWD as u64, place.0, flags, 0, 0, 0];
    let descriptor = process.call((libc::SYS_openat, operation), arguments);
    shared.clear_text(text.as_bytes_with_nul().len());
    let descriptor = descriptor?;
    let opened = copy_descriptor(pid, descriptor)
        .and_then(|opened| Ok((opened.metadata()?, file.metadata()?)));
    let (opened, wanted) = opened.map_err(|source| TagError::Shared { pid, operation, source })?;
    let is_same = if wanted.file_type().is_char_device() {
        opened.file_type().is_char_device() && opened.rdev() == wanted.rdev()
    } else {
        (opened.dev(), opened.ino()) == (wanted.dev(), wanted.ino())
    };
    if !is_same {
        let _ = process.call((libc::SYS_close, operation), [descriptor, 0, 0, 0, 0, 0]);
        let answer = "another file".to_owned();
        return Err(TagError::Answer { pid, operation, found: answer });
    }
    Ok(descriptor)
}

/// Maps a part of an open file of the process. Returns the address.
fn map(
    process: &mut Stopped<'_>,
    descriptor: u64,
    bytes: u64,
    offset: u64,
    file: &File,
) -> Result<RunAddr, TagError> {
    let (pid, operation) = (process.pid, "map the card's window");
    let opened = copy_descriptor(pid, descriptor).and_then(|file| file.metadata());
    let inode = opened.map_err(|source| TagError::Shared { pid, operation, source })?.ino();
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let arguments = [0, bytes, protection, libc::MAP_SHARED as u64, descriptor, offset];
    let start = RunAddr(process.call((libc::SYS_mmap, operation), arguments)?);
    let end = start.saturating_add(bytes.next_multiple_of(PAGE_BYTES));
    // Some file systems report another device number in mappings than in `stat`.
    let is_window = |mapping: &Mapping| {
        let is_there =
            mapping.start <= start && end <= mapping.end && mapping.shared && mapping.writable;
        is_there
            && mapping.file.is_some_and(|file| file.inode == inode)
            && mapping.offset + (start - mapping.start) == offset
    };
    if !mappings(pid)?.iter().any(is_window) {
        let about = if file.metadata().is_ok_and(|it| it.is_file()) { "file" } else { "device" };
        let answer = format!("{start:x}, where that {about} is not mapped");
        return Err(TagError::Answer { pid, operation, found: answer });
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_large_enough(bytes: Option<u64>, needed: u64) -> Result<Option<u64>, String> {
        let window = CardWindow { path: "/dev/zero".into(), offset: 0, bytes };
        check(&window, &open(&window).unwrap(), needed).map_err(|error| error.to_string())
    }

    #[test]
    fn a_device_has_the_window_of_a_card_unless_its_size_is_named() {
        assert_eq!(is_large_enough(None, DEVICE_BYTES), Ok(None));
        let needed = DEVICE_BYTES + CARD_STRIDE;
        let error = format!("/dev/zero: {needed} bytes are needed, {DEVICE_BYTES} are there");
        assert_eq!(is_large_enough(None, needed), Err(error));
        let larger = 2 * DEVICE_BYTES;
        assert_eq!(is_large_enough(Some(larger), larger), Ok(Some(larger)));
        assert!(is_large_enough(Some(larger), larger + 1).is_err());
    }

    #[test]
    fn a_larger_file_has_the_window_of_a_card_unless_its_size_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 * DEVICE_BYTES).unwrap();
        let window_bytes = |bytes, needed| {
            let window = CardWindow { path: file.path().into(), offset: 0, bytes };
            check(&window, &open(&window).unwrap(), needed).map_err(|error| error.to_string())
        };
        assert_eq!(window_bytes(None, DEVICE_BYTES), Ok(Some(DEVICE_BYTES)));
        let error = window_bytes(None, DEVICE_BYTES + CARD_STRIDE).unwrap_err();
        assert!(error.contains(&format!("{} bytes are needed", DEVICE_BYTES + CARD_STRIDE)));
        assert_eq!(
            window_bytes(Some(3 * DEVICE_BYTES), 3 * DEVICE_BYTES),
            Ok(Some(3 * DEVICE_BYTES))
        );
        assert!(window_bytes(Some(8 * DEVICE_BYTES), 5 * DEVICE_BYTES).is_err());
    }
}
