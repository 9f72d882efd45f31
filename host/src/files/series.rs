//! The name of a capture to the names of its files, numbered on from those that are there.
//!
//! `trace.pcapng` becomes `trace_00001_20261122081500.pcapng`: a number that never repeats in the
//! folder, and the UTC time at which the file was begun.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use time::OffsetDateTime;

/// Digits a number has at least.
const DIGITS: usize = 5;

/// What went wrong with the files of a series.
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
    folder: PathBuf,
    stem: String,
    suffix: String,
    last: u64,
    /// Those that are there, oldest first.
    present: VecDeque<PathBuf>,
}

impl Series {
    /// Looks for what an earlier capture of this name has left.
    pub fn open(path: &Path) -> Result<Self, SeriesError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (stem, suffix) = match name.find('.') {
            Some(at) if at != 0 => (name[..at].to_owned(), name[at..].to_owned()),
            _ => (name, String::new()),
        };
        let mut series = Series { folder, stem, suffix, last: 0, present: VecDeque::new() };
        let mut found = series.find().map_err(|source| SeriesError {
            operation: "read the folder",
            path: series.folder.clone(),
            source,
        })?;
        found.sort();
        series.last = found.last().map_or(0, |(number, _)| *number);
        series.present = found.into_iter().map(|(_, path)| path).collect();
        Ok(series)
    }

    fn find(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if let Some(number) = entry.file_name().to_str().and_then(|name| self.number(name)) {
                found.push((number, self.folder.join(entry.file_name())));
            }
        }
        Ok(found)
    }

    /// The number in a file's name, if it belongs to the series.
    fn number(&self, name: &str) -> Option<u64> {
        let middle = name.strip_prefix(&self.stem)?.strip_suffix(&self.suffix)?;
        let (number, time) = middle.strip_prefix('_')?.split_once('_')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_ours = digits(number) && number.len() >= DIGITS && digits(time) && time.len() == 14;
        if is_ours { number.parse().ok() } else { None }
    }

    /// The next file, begun at `now`.
    pub fn next(&mut self, now: SystemTime) -> PathBuf {
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
        let path = self.folder.join(format!("{stem}_{last:0DIGITS$}_{stamp}{suffix}"));
        self.present.push_back(path.clone());
        path
    }

    /// Takes back [`Series::next`]: the file is not ours, or not there. Its number is not used again.
    pub fn forget(&mut self, path: &Path) {
        self.present.retain(|present| present != path);
    }

    /// Removes the oldest files but for `keep`; says how many went.
    pub fn keep(&mut self, keep: usize) -> Result<usize, SeriesError> {
        let mut removed = 0;
        while self.present.len() > keep.max(1) {
            let Some(path) = self.present.pop_front() else { break };
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(SeriesError { operation: "remove", path, source });
                }
                _ => removed += 1,
            }
        }
        Ok(removed)
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn numbers_go_on_where_they_stopped_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        for name in [
            "a_00009_20260101000000.pcapng.zst",
            "a_00010_20260101000001.pcapng.zst",
            "a_00011_20260101000001.pcapng",
            "b_00012_20260101000001.pcapng.zst",
            "a_00013_2026.pcapng.zst",
            "a_x0014_20260101000001.pcapng.zst",
            "a.pcapng.zst",
        ] {
            touch(name);
        }
        let mut series = Series::open(&folder.path().join("a.pcapng.zst")).unwrap();
        assert_eq!(series.len(), 2);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_333_501);
        let next = series.next(now);
        let name = next.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "a_00011_20261122074501.pcapng.zst");
        touch(name);
        assert_eq!(series.keep(1).unwrap(), 2);
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| series.number(name).is_some())
            .collect();
        left.sort();
        assert_eq!(left, ["a_00011_20261122074501.pcapng.zst"]);
        assert_eq!(Series::open(&folder.path().join("a.pcapng.zst")).unwrap().last, 11);
    }
}
