//! Reads files of `/proc` in few system calls: their sizes are not known beforehand, and some are read at each signal.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use super::PtraceError;

/// Bytes that most of these files have less of.
const USUAL_BYTES: usize = 16 << 10;

/// A file of a process or thread.
///
/// # Errors
/// Those of opening and reading it.
pub(crate) fn read(thread: Pid, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    // Without the limit, its size would be asked for, which the kernel does not know.
    File::open(format!("/proc/{thread}/{name}"))?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The threads of a process, as far as they have not ended.
pub(super) fn threads(pid: Pid) -> Result<BTreeSet<Pid>, PtraceError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.map_err(|_| PtraceError::Ended(pid))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).map(Pid::from_raw).collect())
}

/// `status` of the thread that was read last, kept open: reading it again is one system call.
#[derive(Debug, Default)]
pub(crate) struct StatusFile {
    open: Option<(Pid, File)>,
}

impl StatusFile {
    /// Reads `status` of a thread.
    ///
    /// # Errors
    /// Those of opening and reading it.
    pub fn read(&mut self, thread: Pid) -> io::Result<String> {
        // The kernel knows by the open file which thread it is of, also if another has its number now.
        if let Some((of, file)) = &self.open
            && *of == thread
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

/// Reads a file of `/proc` from its start. The kernel writes it anew for that, and gives less than is asked for at its
/// end only.
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

/// The same as [`read`], as text.
///
/// # Errors
/// As of [`read`].
pub(crate) fn read_text(thread: Pid, name: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read(thread, name)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read_anew_and_of_the_thread_that_is_asked_for() {
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
        let nice = |text: &str| text.contains("Name:\tnamed-so");
        assert!(!nice(&status.read(nix::unistd::gettid()).unwrap()));
        nix::sys::prctl::set_name(c"named-so").unwrap();
        assert!(nice(&status.read(nix::unistd::gettid()).unwrap()), "it was read anew");
    }
}
