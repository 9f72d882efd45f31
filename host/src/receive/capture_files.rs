//! Captured frames to the pcapng files of a capture, one after the other.
//!
//! A full disk ends the capture, or in a ring of files costs the oldest ones. Invariant: every frame
//! is in exactly one file or counted as unwritten, and every file explains itself.

mod one;
mod target;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::capture::Captured;
use crate::files::{Leftover, Output, Series, WriteError};
use crate::pcapng::{Description, InterfaceStatistics, PcapngWriter};
use one::{begin, discard, finish, now};
use target::Target;

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
pub(super) type Statistics = Vec<(InterfaceStatistics, String)>;

/// The files of a capture.
pub(super) struct CaptureFiles {
    plan: FilePlan,
    series: Option<Series>,
    writer: PcapngWriter<Output>,
    /// Start of the capture, since the epoch: statistics count from there in every file.
    started: Duration,
    begun: Instant,
    packets: u64,
    earlier_bytes: u64,
    files: u64,
    unwritten: u64,
    /// A failure that nothing more can be written after.
    failed: bool,
}

impl CaptureFiles {
    /// Begins the first file.
    pub fn open(mut plan: FilePlan, interfaces: &[Description]) -> Result<Self, WriteError> {
        let target = Target::of(&plan)?;
        let is_zst = plan.path.extension().is_some_and(|extension| extension == COMPRESSED);
        if is_zst {
            plan.zstd.get_or_insert(zstd::DEFAULT_COMPRESSION_LEVEL);
        } else if plan.zstd.is_some() && !target.is_stream() {
            plan.path.as_mut_os_string().push(".zst");
        }
        let mut series = plan.rotation.map(|_| Series::open(&plan.path)).transpose()?;
        keep_one_less(&plan, series.as_mut())?;
        let writer = begin(&plan, series.as_mut(), interfaces)?;
        Ok(CaptureFiles {
            plan,
            series,
            writer,
            started: now(),
            begun: Instant::now(),
            packets: 0,
            earlier_bytes: 0,
            files: 1,
            unwritten: 0,
            failed: false,
        })
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
        let Some(rotation) = self.plan.rotation else { return false };
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
        keep_one_less(&self.plan, self.series.as_mut())?;
        let next = begin(&self.plan, self.series.as_mut(), interfaces)?;
        self.end_file(next, statistics)
    }

    /// Ends the file that `next` follows.
    fn end_file(
        &mut self,
        next: PcapngWriter<Output>,
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        let ended = std::mem::replace(&mut self.writer, next);
        (self.begun, self.packets, self.files) = (Instant::now(), 0, self.files + 1);
        let (bytes, finished) = finish(ended, self.started, statistics);
        self.earlier_bytes += bytes;
        finished
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
        let is_ring = self.plan.rotation.is_some_and(|rotation| rotation.files.is_some());
        match &mut self.series {
            // The last one is being written.
            Some(series) if is_ring && series.len() > 1 => {
                let keep = series.len() - 1;
                series.keep(keep).is_ok_and(|removed| removed != 0)
            }
            _ => false,
        }
    }

    fn go_on(
        &mut self,
        leftover: &Leftover,
        interfaces: &[Description],
        statistics: &Statistics,
    ) -> Result<(), WriteError> {
        let mut next = begin(&self.plan, self.series.as_mut(), interfaces)?;
        let output = next.output();
        let path = output.path().to_owned();
        if let Err(error) = output.restore(leftover).and_then(|()| output.flush()) {
            discard(self.series.as_mut(), &path);
            return Err(WriteError::at(&path, error));
        }
        // What is left is in the next file now; that the last one has no statistics changes nothing.
        let _ = self.end_file(next, statistics);
        self.packets = leftover.units;
        Ok(())
    }

    /// Ends the last file; all bytes written come back.
    pub fn finish(self, statistics: &Statistics) -> (u64, Result<(), WriteError>) {
        let (bytes, finished) = finish(self.writer, self.started, statistics);
        (self.earlier_bytes + bytes, finished)
    }
}

/// Makes room for another file where only so many are kept.
fn keep_one_less(plan: &FilePlan, series: Option<&mut Series>) -> Result<(), WriteError> {
    let files = plan.rotation.and_then(|rotation| rotation.files);
    if let (Some(series), Some(files)) = (series, files) {
        series.keep(files.saturating_sub(1))?;
    }
    Ok(())
}
