//! Captured frames to the pcapng files of a capture, one after the other.
//!
//! A full disk ends the capture, or in a ring of files costs the oldest ones. Invariant: every frame
//! is in exactly one file or counted as unwritten, and every file explains itself.

mod one;
mod target;

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hmtt::pcapng::{Description, InterfaceStatistics, PcapngWriter};
use hmtt_format::escape;

use crate::capture::Captured;
use crate::files::{Directory, Leftover, LostFiles, Output, Series, Stop, Syncer, WriteError};
use one::{Closed, Make, begin, begin_single, finish, head, now};
use target::Resolved;
pub use target::{Target, descriptor, inherited};

const COMPRESSED: &str = "zst";

/// Where frames go.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// The file or named pipe, or the name that the files of a series are made from; `-` is standard
    /// output.
    pub path: PathBuf,
    /// An existing file may be replaced; those of a series never are.
    pub overwrite: bool,
    /// When to go on in another file.
    pub rotation: Option<Rotation>,
    /// Level at which files are compressed with zstd.
    pub zstd: Option<i32>,
    /// Permissions of the files, of which the umask takes some away.
    pub mode: u32,
}

/// When to go on in another file, and how many to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// After this many bytes.
    pub bytes: Option<u64>,
    /// After this time.
    pub duration: Option<Duration>,
    /// After this many frames.
    pub packets: Option<u64>,
    /// Keep this many files, those of earlier captures of that name included.
    pub files: Option<usize>,
}

/// What was counted at each interface since the capture began, and a comment for the file.
pub type Statistics = Vec<(InterfaceStatistics, String)>;

/// The files of a capture.
pub struct CaptureFiles {
    make: Make,
    rotation: Option<Rotation>,
    series: Option<Series>,
    writer: PcapngWriter<Output>,
    /// Makes ended files durable; started with the first of them.
    syncer: Option<Syncer>,
    /// Start of the capture, since the epoch: statistics count from there in every file.
    started: Duration,
    /// The same moment, by a clock that is never set.
    start: Instant,
    begun: Instant,
    packets: u64,
    earlier_bytes: u64,
    files: u64,
    unwritten: u64,
    lost: LostFiles,
    /// A failure that nothing more can be written after.
    failed: bool,
}

impl CaptureFiles {
    /// Begins the first file. Once `stop` is asked for, no stream is waited for any longer.
    pub fn open(
        plan: FilePlan,
        target: Target,
        interfaces: &[Description],
        stop: Stop,
    ) -> Result<Self, WriteError> {
        let mut make = Make { zstd: plan.zstd, mode: plan.mode };
        let is_zst = plan.path.extension().is_some_and(|extension| extension == COMPRESSED);
        if is_zst {
            make.zstd.get_or_insert(zstd::DEFAULT_COMPRESSION_LEVEL);
        }
        let mut series = None;
        let writer = match target.resolve(&plan, stop)? {
            Resolved::Stream(stream) => head(stream, make, interfaces)?,
            Resolved::File(mut entry) => {
                if !is_zst && make.zstd.is_some() {
                    let mut name = entry.name().to_owned();
                    name.push(".zst");
                    entry = entry.beside(name);
                }
                match plan.rotation {
                    None => begin_single(make, &entry, plan.overwrite, interfaces)?,
                    Some(rotation) => {
                        let series = series.insert(Series::open(entry, rotation.files.is_some())?);
                        keep_one_less(Some(rotation), series)?;
                        begin(make, series, interfaces)?
                    }
                }
            }
        };
        Ok(CaptureFiles {
            make,
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

    /// The directory in which later files will have to be created, if there will be any.
    pub fn directory(&self) -> Option<&Directory> {
        self.series.as_ref().map(Series::directory)
    }

    /// Removes the first file: the capture does not begin.
    pub fn discard(self) {
        self.writer.into_output().discard();
    }

    /// From the start of the capture until now, since the epoch; a clock that is set back does not
    /// make it end before it starts.
    fn times(&self) -> Range<Duration> {
        self.started..self.started + self.start.elapsed()
    }

    /// Files that were removed or replaced while they were written.
    pub fn lost(&self) -> &LostFiles {
        &self.lost
    }

    /// The file that is being written.
    pub fn path(&mut self) -> PathBuf {
        self.writer.output().path().into()
    }

    /// Bytes of all files, but for what waits to be compressed.
    pub fn bytes(&mut self) -> u64 {
        self.earlier_bytes + self.writer.output().len()
    }

    /// How many files were begun.
    pub fn count(&self) -> u64 {
        self.files
    }

    /// Frames that could not be written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Whether it is time for another file.
    pub fn is_due(&mut self) -> bool {
        let Some(rotation) = self.rotation else { return false };
        let bytes = rotation.bytes.is_some_and(|bytes| self.writer.output().len() >= bytes);
        let packets = rotation.packets.is_some_and(|packets| self.packets >= packets);
        // The clock is read only where it matters.
        let late = || rotation.duration.is_some_and(|duration| self.begun.elapsed() >= duration);
        self.packets != 0 && !self.failed && (bytes || packets || late())
    }

    /// Ends the file and begins another.
    pub fn rotate(
        &mut self,
        interfaces: &[Description],
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        // What fails before the file is given up can be taken back.
        self.flush()?;
        // The next file needs what this one has reserved and will not use.
        let output = self.writer.output();
        output.trim().map_err(|error| WriteError::at(output.path(), error))?;
        let Some(series) = &mut self.series else { return Ok(()) };
        keep_one_less(self.rotation, series)?;
        let next = begin(self.make, series, interfaces)?;
        self.end_file(next, statistics)
    }

    /// Ends the file that `next` follows.
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

    /// Hands an ended file over to be made durable.
    fn close(
        closed: Closed,
        lost: &mut LostFiles,
        syncer: &mut Option<Syncer>,
    ) -> Result<(), WriteError> {
        if let Some(file) = closed.lost {
            lost.push(file);
        }
        let synced = match closed.ended {
            Some(ended) => syncer.get_or_insert_with(Syncer::start).hand_over(ended),
            None => Ok(()),
        };
        closed.result.and(synced)
    }

    /// Appends a frame of the interface with this number.
    #[inline]
    pub fn frame(&mut self, link: usize, frame: &Captured<'_>) {
        let Captured { time, original_len, bytes } = *frame;
        // Into memory: fails only for a frame longer than a block can be, which is none.
        let mut fits = || self.writer.write_frame(link as u32, time, original_len, bytes).is_ok();
        if self.failed || !fits() {
            self.unwritten += 1;
            return;
        }
        self.packets += 1;
        self.writer.output().mark(1);
    }

    /// Writes to the disk if enough has come for it; `hurry` when more comes than the disk takes.
    #[inline]
    pub fn settle(&mut self, hurry: bool) -> Result<(), WriteError> {
        if self.failed {
            return Ok(());
        }
        let output = self.writer.output();
        output.settle(hurry).map_err(|error| WriteError::at(output.path(), error))
    }

    /// Makes everything so far readable by others.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.failed {
            return Ok(());
        }
        let output = self.writer.output();
        output.flush().map_err(|error| WriteError::at(output.path(), error))
    }

    /// After a failure: goes on in another file if old ones may go to make room. Otherwise nothing
    /// more is written, and what did not reach the file is counted.
    pub fn rescue(
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
                if self.go_on(&leftover, interfaces, statistics).is_ok() {
                    return Ok(());
                }
            }
        }
        self.give_up(leftover.units, error)
    }

    /// Nothing more is written.
    fn give_up(&mut self, missing: u64, error: WriteError) -> Result<(), WriteError> {
        self.failed = true;
        self.unwritten += missing;
        Err(error)
    }

    /// Whether there was an old file to remove.
    fn drop_oldest(&mut self) -> bool {
        let is_ring = self.rotation.is_some_and(|rotation| rotation.files.is_some());
        let Some(series) = self.series.as_mut().filter(|_| is_ring) else { return false };
        // The last one is being written. One that may not be removed makes no room.
        while series.len() > 1 {
            match series.keep(series.len() - 1) {
                Ok(0) => tell_left(series),
                removed => return removed.is_ok(),
            }
        }
        false
    }

    fn go_on(
        &mut self,
        leftover: &Leftover,
        interfaces: &[Description],
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        let Some(series) = &mut self.series else {
            return Err(WriteError::Full { path: self.path() });
        };
        let mut next = begin(self.make, series, interfaces)?;
        let output = next.output();
        if let Err(error) = output.restore(leftover).and_then(|()| output.flush()) {
            let error = WriteError::at(output.path(), error);
            series.forget();
            next.into_output().discard();
            return Err(error);
        }
        // What is left is in the next file now; that the last one has no statistics changes nothing.
        let _ = self.end_file(next, statistics);
        self.packets = leftover.units;
        Ok(())
    }

    /// Ends the last file, and waits until all are durable. All bytes written come back, and the files
    /// that are not at their paths.
    pub fn finish(mut self, statistics: &Statistics) -> (u64, LostFiles, Result<(), WriteError>) {
        let times = self.times();
        let closed = finish(self.writer, times, statistics);
        let bytes = self.earlier_bytes + closed.bytes;
        let closed = Self::close(closed, &mut self.lost, &mut self.syncer);
        let synced = self.syncer.map_or(Ok(()), Syncer::finish);
        (bytes, self.lost, closed.and(synced))
    }
}

/// Makes room for another file where only so many are kept.
fn keep_one_less(rotation: Option<Rotation>, series: &mut Series) -> Result<(), WriteError> {
    if let Some(files) = rotation.and_then(|rotation| rotation.files) {
        series.keep(files.saturating_sub(1))?;
        tell_left(series);
    }
    Ok(())
}

/// Says which file stays although it is one too many. The capture goes on.
fn tell_left(series: &mut Series) {
    if let Some(path) = series.take_left() {
        let path = path.display().to_string();
        // Standard error that is closed loses what nobody reads.
        let _ = writeln!(
            io::stderr(),
            "hmtt-recv: warning: {}: this user may not remove it: it is left, and counted no more",
            escape::name(&path)
        );
    }
}
