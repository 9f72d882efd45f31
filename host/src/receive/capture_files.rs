//! Writes captured frames to the pcapng files of a capture, one file after the other.
//!
//! A full disk ends the capture; with `-b files:N` the oldest files are removed instead. Invariant:
//! every frame is in exactly one file or counted as unwritten, and every file can be decoded
//! without the others.

mod capture_file;
mod target;

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hmtt::pcapng::{Description, InterfaceStatistics, PcapngWriter};
use hmtt_format::escape;

use crate::capture::Captured;
use crate::files::{Directory, Leftover, LostFiles, Output, Series, Stop, Syncer, WriteError};
use capture_file::{Closed, FileOptions, begin, begin_single, finish, now, write_head};
use target::Resolved;
pub use target::{Target, descriptor, inherited};

const COMPRESSED: &str = "zst";

/// Where and how frames are written.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// Path of the file or named pipe, or the name from which the names of a series are derived;
    /// `-` is standard output.
    pub path: PathBuf,
    /// Whether an existing file may be replaced. Files of a series are never replaced.
    pub overwrite: bool,
    /// When to continue in another file; `None` for a single file.
    pub rotation: Option<Rotation>,
    /// zstd compression level; `None` for uncompressed files.
    pub zstd: Option<i32>,
    /// Permissions of the files, before the umask is applied.
    pub mode: u32,
}

/// When to continue in another file, and how many files to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// Number of bytes after which the next file is begun.
    pub bytes: Option<u64>,
    /// Time after which the next file is begun.
    pub duration: Option<Duration>,
    /// Number of frames after which the next file is begun.
    pub packets: Option<u64>,
    /// Number of files to keep, including the files of earlier captures of the same name.
    pub files: Option<usize>,
}

/// For each interface, its counts since the capture began, and a comment for the file.
pub type Statistics = Vec<(InterfaceStatistics, String)>;

/// The files of a capture.
pub struct CaptureFiles {
    options: FileOptions,
    rotation: Option<Rotation>,
    series: Option<Series>,
    writer: PcapngWriter<Output>,
    /// Makes ended files durable; started when the first file has ended.
    syncer: Option<Syncer>,
    /// Start of the capture, since the Unix epoch; the statistics of every file count from it.
    started: Duration,
    /// Start of the capture, by a clock that is never set.
    start: Instant,
    begun: Instant,
    packets: u64,
    earlier_bytes: u64,
    files: u64,
    unwritten: u64,
    lost: LostFiles,
    /// Set after a failure from which the files could not recover: nothing more is written.
    failed: bool,
}

impl CaptureFiles {
    /// Begins the first file. After `stop` was requested, the reader of a stream is not waited for.
    ///
    /// # Errors
    /// If the file cannot be created, or its first blocks cannot be written.
    pub fn open(
        plan: FilePlan,
        target: Target,
        interfaces: &[Description],
        stop: Stop,
    ) -> Result<Self, WriteError> {
        let mut options = FileOptions { zstd: plan.zstd, mode: plan.mode };
        let is_zst = plan.path.extension().is_some_and(|extension| extension == COMPRESSED);
        if is_zst {
            options.zstd.get_or_insert(zstd::DEFAULT_COMPRESSION_LEVEL);
        }
        let mut series = None;
        let writer = match target.resolve(&plan, stop)? {
            Resolved::Stream(stream) => write_head(stream, options, interfaces)?,
            Resolved::File(mut entry) => {
                if !is_zst && options.zstd.is_some() {
                    let mut name = entry.name().to_owned();
                    name.push(".zst");
                    entry = entry.sibling(name);
                }
                match plan.rotation {
                    None => begin_single(options, &entry, plan.overwrite, interfaces)?,
                    Some(rotation) => {
                        let series = series.insert(Series::open(entry, rotation.files.is_some())?);
                        keep_one_less(Some(rotation), series)?;
                        begin(options, series, interfaces)?
                    }
                }
            }
        };
        Ok(CaptureFiles {
            options,
            rotation: plan.rotation,
            series,
            writer,
            syncer: None,
            started: now(),
            start: Instant::now(),
            begun: Instant::now(),
            packets: 0,
            earlier_bytes: 0,
            files: 1,
            unwritten: 0,
            lost: LostFiles::default(),
            failed: false,
        })
    }

    /// Directory in which later files will be created; `None` for a single file.
    pub fn directory(&self) -> Option<&Directory> {
        self.series.as_ref().map(Series::directory)
    }

    /// Removes the first file: the capture does not begin.
    pub fn discard(self) {
        self.writer.into_output().discard();
    }

    /// Start of the capture and current time, since the Unix epoch. The current time is computed
    /// from a clock that is never set, so it is never before the start.
    fn times(&self) -> Range<Duration> {
        self.started..self.started + self.start.elapsed()
    }

    /// Files that were removed or replaced while they were written.
    pub fn lost(&self) -> &LostFiles {
        &self.lost
    }

    /// Path of the file that is being written.
    pub fn path(&mut self) -> PathBuf {
        self.writer.output().path().into()
    }

    /// Number of bytes in all files, without bytes that are not compressed yet.
    pub fn bytes(&mut self) -> u64 {
        self.earlier_bytes + self.writer.output().len()
    }

    /// Number of files that were begun.
    pub fn count(&self) -> u64 {
        self.files
    }

    /// Number of frames that could not be written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Whether a condition for the next file is met.
    pub fn is_due(&mut self) -> bool {
        let Some(rotation) = self.rotation else { return false };
        let bytes = rotation.bytes.is_some_and(|bytes| self.writer.output().len() >= bytes);
        let packets = rotation.packets.is_some_and(|packets| self.packets >= packets);
        // The clock is read only if there is a time condition.
        let late = || rotation.duration.is_some_and(|duration| self.begun.elapsed() >= duration);
        self.packets != 0 && !self.failed && (bytes || packets || late())
    }

    /// Ends the file and begins the next one.
    ///
    /// # Errors
    /// If the file cannot be ended, or the next one cannot be begun.
    pub fn rotate(
        &mut self,
        interfaces: &[Description],
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        // Flushes first: until the file is ended, a failed write can be recovered from.
        self.flush()?;
        // The next file may need the space that this file has reserved and will not use.
        let output = self.writer.output();
        output.trim().map_err(|error| WriteError::at(output.path(), error))?;
        let Some(series) = &mut self.series else { return Ok(()) };
        keep_one_less(self.rotation, series)?;
        let next = begin(self.options, series, interfaces)?;
        self.end_file(next, statistics)
    }

    /// Ends the current file and continues in `next`.
    fn end_file(
        &mut self,
        next: PcapngWriter<Output>,
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        let times = self.times();
        let ended = std::mem::replace(&mut self.writer, next);
        (self.begun, self.packets, self.files) = (Instant::now(), 0, self.files + 1);
        let closed = finish(ended, times, statistics);
        self.earlier_bytes += closed.bytes;
        Self::close(closed, &mut self.lost, &mut self.syncer)
    }

    /// Passes an ended file to the thread that makes it durable.
    fn close(
        closed: Closed,
        lost: &mut LostFiles,
        syncer: &mut Option<Syncer>,
    ) -> Result<(), WriteError> {
        if let Some(file) = closed.lost {
            lost.push(file);
        }
        let synced = match closed.unsynced {
            Some(ended) => syncer.get_or_insert_with(Syncer::start).hand_over(ended),
            None => Ok(()),
        };
        closed.result.and(synced)
    }

    /// Appends a frame. `link`: index of its interface.
    #[inline]
    pub fn frame(&mut self, link: usize, frame: &Captured<'_>) {
        let Captured { time, original_len, bytes } = *frame;
        // Writes into memory. Fails only for a frame longer than a pcapng block, which does not
        // occur.
        let mut fits = || self.writer.write_frame(link as u32, time, original_len, bytes).is_ok();
        if self.failed || !fits() {
            self.unwritten += 1;
            return;
        }
        self.packets += 1;
        self.writer.output().mark(1);
    }

    /// Writes to the disk if enough bytes are buffered. `hurry`: frames arrive faster than the disk
    /// writes.
    ///
    /// # Errors
    /// If a write fails.
    #[inline]
    pub fn settle(&mut self, hurry: bool) -> Result<(), WriteError> {
        if self.failed {
            return Ok(());
        }
        let output = self.writer.output();
        output.settle(hurry).map_err(|error| WriteError::at(output.path(), error))
    }

    /// Writes all buffered bytes, so that other processes can read them.
    ///
    /// # Errors
    /// If a write fails.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.failed {
            return Ok(());
        }
        let output = self.writer.output();
        output.flush().map_err(|error| WriteError::at(output.path(), error))
    }

    /// Recovers from a failed write: removes old files, if that is allowed, and continues in the
    /// next file. Otherwise nothing more is written, and the frames that did not reach the file are
    /// counted.
    ///
    /// # Errors
    /// `error`, if the capture cannot continue.
    pub fn recover(
        &mut self,
        error: WriteError,
        interfaces: &[Description],
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        let output = self.writer.output();
        let missing = output.unwritten();
        let Ok(leftover) = output.reclaim() else {
            return self.give_up(missing, error);
        };
        if matches!(error, WriteError::Full { .. }) {
            while self.drop_oldest() {
                if self.continue_in_next_file(&leftover, interfaces, statistics).is_ok() {
                    return Ok(());
                }
            }
        }
        self.give_up(leftover.units, error)
    }

    /// Stops writing, and counts the missing frames.
    fn give_up(&mut self, missing: u64, error: WriteError) -> Result<(), WriteError> {
        self.failed = true;
        self.unwritten += missing;
        Err(error)
    }

    /// Removes the oldest file. Returns false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let is_ring = self.rotation.is_some_and(|rotation| rotation.files.is_some());
        let Some(series) = self.series.as_mut().filter(|_| is_ring) else { return false };
        // The last file is being written. A file that may not be removed frees no space.
        while series.len() > 1 {
            match series.limit_to(series.len() - 1) {
                Ok(0) => warn_of_kept_file(series),
                removed => return removed.is_ok(),
            }
        }
        false
    }

    fn continue_in_next_file(
        &mut self,
        leftover: &Leftover,
        interfaces: &[Description],
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        let Some(series) = &mut self.series else {
            return Err(WriteError::Full { path: self.path() });
        };
        let mut next = begin(self.options, series, interfaces)?;
        let output = next.output();
        if let Err(error) = output.restore(leftover).and_then(|()| output.flush()) {
            let error = WriteError::at(output.path(), error);
            series.forget();
            next.into_output().discard();
            return Err(error);
        }
        // The leftover is in the next file now. The ended file may lack its statistics block, but
        // the next file has one.
        let _ = self.end_file(next, statistics);
        self.packets = leftover.units;
        Ok(())
    }

    /// Ends the last file, and waits until all files are durable. Returns the number of bytes
    /// written, the files that are not at their paths, and the first error.
    pub fn finish(mut self, statistics: &Statistics) -> (u64, LostFiles, Result<(), WriteError>) {
        let times = self.times();
        let closed = finish(self.writer, times, statistics);
        let bytes = self.earlier_bytes + closed.bytes;
        let closed = Self::close(closed, &mut self.lost, &mut self.syncer);
        let synced = self.syncer.map_or(Ok(()), Syncer::finish);
        (bytes, self.lost, closed.and(synced))
    }
}

/// Removes old files so that the next one fits the limit of `-b files:N`.
fn keep_one_less(rotation: Option<Rotation>, series: &mut Series) -> Result<(), WriteError> {
    if let Some(files) = rotation.and_then(|rotation| rotation.files) {
        series.limit_to(files.saturating_sub(1))?;
        warn_of_kept_file(series);
    }
    Ok(())
}

/// Warns of a file that exceeds the limit and may not be removed. The capture continues.
fn warn_of_kept_file(series: &mut Series) {
    if let Some(path) = series.take_kept() {
        let path = path.display().to_string();
        // If standard error is closed, nobody reads the warning.
        let _ = writeln!(
            io::stderr(),
            "hmtt-recv: warning: {}: this user may not remove it: it is left, and counted no more",
            escape::name(&path)
        );
    }
}
