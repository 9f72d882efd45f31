//! Names the files of a capture that is written to a series of files, and removes the oldest ones.
//!
//! `trace.pcapng` becomes `trace_00001_20261122081500.pcapng`: a number that is one above the
//! largest in the directory, and the UTC time at which the file was begun.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::{FileType, FlockOperation, OFlags, flock, fstat};
use time::OffsetDateTime;

use super::directory::{Directory, Entry, Identity, Removal};

/// Minimum number of digits in a file's number.
const DIGITS: usize = 5;

/// Largest number that counts as part of the series: a user who can create files in the directory
/// must not be able to use up the numbers.
const MAX_NUMBER: u64 = u64::MAX / 2;

/// A failed operation on the files of a series.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}")]
pub struct SeriesError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The files of one series.
#[derive(Debug)]
pub struct Series {
    /// Name from which the names of the files are derived.
    base: Entry,
    stem: Vec<u8>,
    suffix: Vec<u8>,
    last: u64,
    /// Existing files that may be removed, oldest first. A file of an earlier capture is included
    /// only if this process may read it and no other capture is writing it.
    present: VecDeque<Present>,
    /// Path of a file of another user that could not be removed, until [`Series::take_kept`]
    /// returns it.
    kept: Option<PathBuf>,
    /// Whether a file was found that could not be removed. Only the first one is reported.
    has_noted_kept: bool,
}

/// A file of a series.
#[derive(Debug)]
struct Present {
    entry: Entry,
    identity: Option<Identity>,
    /// Whether this process has written the file. Then no other capture is writing the file, even
    /// if the file is locked.
    is_own: bool,
}

impl Series {
    /// Finds the files of earlier captures of this name. With `reclaims`, they count as files of
    /// this series.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(base: Entry, reclaims: bool) -> Result<Self, SeriesError> {
        let name = base.name().as_bytes();
        let (stem, suffix) = match name.iter().position(|byte| *byte == b'.') {
            Some(at) if at != 0 => name.split_at(at),
            _ => (name, &b""[..]),
        };
        let (stem, suffix) = (stem.to_vec(), suffix.to_vec());
        let mut series = Series {
            base,
            stem,
            suffix,
            last: 0,
            present: VecDeque::new(),
            kept: None,
            has_noted_kept: false,
        };
        let names = series.base.directory().names().map_err(|source| SeriesError {
            operation: "read the directory",
            path: series.base.directory().path().into(),
            source,
        })?;
        let numbered = |name: OsString| series.number(&name).map(|number| (number, name));
        let mut members: Vec<(u64, OsString)> = names.into_iter().filter_map(numbered).collect();
        members.sort();
        series.last = members.last().map_or(0, |(number, _)| *number);
        if reclaims {
            let entries = members.into_iter().map(|(_, name)| series.base.sibling(name));
            let kept = entries.filter_map(|entry| {
                let identity = Some(identify(&entry)?);
                Some(Present { entry, identity, is_own: false })
            });
            series.present = kept.collect();
        }
        Ok(series)
    }

    /// Directory of the files.
    pub fn directory(&self) -> &Directory {
        self.base.directory()
    }

    /// Number in a file's name; `None` if the file is not part of the series.
    fn number(&self, name: &OsStr) -> Option<u64> {
        let middle = name.as_bytes().strip_prefix(&self.stem[..])?;
        let middle = std::str::from_utf8(middle.strip_suffix(&self.suffix[..])?).ok()?;
        let (number, time) = middle.strip_prefix('_')?.split_once('_')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_ours = digits(number) && number.len() >= DIGITS && digits(time) && time.len() == 14;
        let number = if is_ours { number.parse().ok() } else { None };
        number.filter(|number| *number <= MAX_NUMBER)
    }

    /// Entry for the next file, begun at `now`.
    pub fn next(&mut self, now: SystemTime) -> Entry {
        self.last += 1;
        let t = OffsetDateTime::from(now);
        let stamp = format!(
            "{:04}{:02}{:02}{:02}{:02}{:02}",
            t.year(),
            u8::from(t.month()),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        );
        let Series { stem, suffix, last, .. } = self;
        let number = format!("_{last:0DIGITS$}_{stamp}");
        let name = [&stem[..], number.as_bytes(), &suffix[..]].concat();
        let entry = self.base.sibling(OsString::from_vec(name));
        self.present.push_back(Present { entry: entry.clone(), identity: None, is_own: true });
        entry
    }

    /// Records that the last file of [`Series::next`] was created.
    pub fn created(&mut self, identity: Option<Identity>) {
        if let Some(last) = self.present.back_mut() {
            last.identity = identity;
        }
    }

    /// Removes the last file of [`Series::next`] from the series: it was not created, or belongs to
    /// another capture. Its number is not used again.
    pub fn forget(&mut self) {
        self.present.pop_back();
    }

    /// Removes the oldest files until `keep` are left. Returns the number of files that no longer
    /// exist. Some files are kept, and no longer counted: a file that another capture is writing, a
    /// file whose name another file has taken, and a file of another user that may not be removed.
    ///
    /// # Errors
    /// If a file of this process cannot be removed.
    pub fn limit_to(&mut self, keep: usize) -> Result<usize, SeriesError> {
        let mut gone = 0;
        while self.present.len() > keep.max(1) {
            let Some(Present { entry, identity, is_own }) = self.present.pop_front() else { break };
            let removed = match identity {
                Some(identity) if is_own => entry.remove_if(identity),
                _ => entry.remove_unless_live(identity),
            };
            match removed {
                Ok(Removal::Removed | Removal::Gone) => gone += 1,
                Ok(Removal::Live) => {}
                // A user who can create files in the directory must not be able to end the capture.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_own => {
                    if !std::mem::replace(&mut self.has_noted_kept, true) {
                        self.kept = Some(entry.path());
                    }
                }
                Err(source) => {
                    let path = entry.path();
                    return Err(SeriesError { operation: "remove", path, source });
                }
            }
        }
        Ok(gone)
    }

    /// Path of the first file that could not be removed; returned once.
    pub fn take_kept(&mut self) -> Option<PathBuf> {
        self.kept.take()
    }

    /// Number of files in the series.
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// Whether the series has no files.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }
}

/// Identity of a file that this process may read and that no capture is writing.
fn identify(entry: &Entry) -> Option<Identity> {
    if entry.kind().ok()? != Some(FileType::RegularFile) {
        return None;
    }
    let file = entry.open(OFlags::RDONLY).ok()?;
    let status = fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    let is_live =
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK);
    if is_file && !is_live { Identity::from_file(&file).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn numbers_continue_after_the_largest_and_the_oldest_files_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        for name in [
            "a_00009_20260101000000.pcapng.zst",
            "a_00010_20260101000001.pcapng.zst",
            "a_00011_20260101000001.pcapng",
            "b_00012_20260101000001.pcapng.zst",
            "a_00013_2026.pcapng.zst",
            "a_x0014_20260101000001.pcapng.zst",
            "a_18446744073709551615_20260101000001.pcapng.zst",
            "a_18446744073709551614_20260101000001.pcapng.zst",
            "a_99999999999999999999_20260101000001.pcapng.zst",
            "a.pcapng.zst",
        ] {
            touch(name);
        }
        let base = Entry::find(&folder.path().join("a.pcapng.zst")).unwrap().unwrap();
        let mut series = Series::open(base.clone(), true).unwrap();
        assert_eq!(series.len(), 2);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_333_501);
        let next = series.next(now);
        let name = next.name().to_str().unwrap();
        assert_eq!(name, "a_00011_20261122074501.pcapng.zst");
        touch(name);
        assert_eq!(series.limit_to(1).unwrap(), 2);
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| series.number(name).is_some())
            .collect();
        left.sort();
        assert_eq!(left, ["a_00011_20261122074501.pcapng.zst"]);
        assert_eq!(Series::open(base, true).unwrap().last, 11);
    }
}
