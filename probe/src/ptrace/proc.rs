//! Reads files of `/proc` with few system calls. The sizes of these files are not known beforehand,
//! and some files are read at each signal.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use super::PtraceError;

/// Initial buffer size in bytes. Most of these files are shorter.
const USUAL_BYTES: usize = 16 << 10;

/// Reads a file in the `/proc` directory of a process or thread.
///
/// # Errors
/// Errors of opening and reading the file.
pub(crate) fn read(thread: Pid, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    // The limit avoids a query of the file's size, which the kernel reports as 0.
    File::open(format!("/proc/{thread}/{name}"))?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The threads of a process that have not ended.
///
/// # Errors
/// [`PtraceError::Ended`] if the process has ended.
pub(super) fn threads(pid: Pid) -> Result<BTreeSet<Pid>, PtraceError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.map_err(|_| PtraceError::Ended(pid))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).map(Pid::from_raw).collect())
}

/// Keeps the `status` file of the last thread open, so that reading the file again is one system
/// call.
#[derive(Debug, Default)]
pub(crate) struct StatusFile {
    open: Option<(Pid, File)>,
}

impl StatusFile {
    /// Reads the `status` file of a thread.
    ///
    /// # Errors
    /// Errors of opening and reading the file.
    pub fn read(&mut self, thread: Pid) -> io::Result<String> {
        // The open file refers to its thread, even if another thread has the same number now.
        if let Some((owner, file)) = &self.open
            && *owner == thread
            && let Ok(text) = read_whole(file)
        {
            return Ok(text);
        }
        let file = File::open(format!("/proc/{thread}/status"))?;
        let text = read_whole(&file);
        self.open = Some((thread, file));
        text
    }
}

/// Reads a file of `/proc` from its start. The kernel generates the text anew for such a read, and
/// returns fewer bytes than requested only at the end.
fn read_whole(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; USUAL_BYTES];
    let mut length = 0;
    loop {
        length += file.read_at(&mut bytes[length..], length as u64)?;
        if length < bytes.len() {
            bytes.truncate(length);
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.resize(2 * length, 0);
    }
}

/// Like [`read`], as text. Invalid UTF-8 is replaced.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_text(thread: Pid, name: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read(thread, name)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read_anew_for_the_requested_thread() {
        let mut status = StatusFile::default();
        let number = |text: &str, name: &str| -> i32 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse().unwrap()
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, other) = (Pid::this(), Pid::from_raw(child.id().cast_signed()));
        for thread in [own, own, other, other, own] {
            assert_eq!(number(&status.read(thread).unwrap(), "Pid:"), thread.as_raw());
        }
        status.read(other).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(status.read(other).is_err());
        let has_name = |text: &str| text.contains("Name:\tnamed-so");
        assert!(!has_name(&status.read(nix::unistd::gettid()).unwrap()));
        nix::sys::prctl::set_name(c"named-so").unwrap();
        assert!(has_name(&status.read(nix::unistd::gettid()).unwrap()), "read anew");
    }
}
