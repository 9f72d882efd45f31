//! Runs the recorder's thread: takes batches from the queue, writes them to files, and checks and
//! counts their frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use hmtt::pcapng::Description;
use hmtt_format::frame::END_REPEATS;

use super::capture_files::{CaptureFiles, Statistics};
use super::check::{Check, statistics};
use super::clock_steps::ClockMonitor;
use super::mirrors::{self, Sample};
use super::observer::Observer;
use super::{Limits, Link, Outcome, ReceiveError, Setup, Snapshot};
use crate::capture::queue::{Delivery, Queue};
use crate::capture::{Batch, Captured};
use crate::files::WriteError;

/// Longest time until a captured frame is in the file, unless the disk is too slow.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// State of the recorder's thread.
pub(super) struct Recorder {
    queue: Queue,
    checks: Vec<Check>,
    /// Samples of the frames of each interface; empty if there is only one interface.
    samples: Vec<Sample>,
    files: Option<CaptureFiles>,
    observer: Observer,
    limits: Limits,
    clock: ClockMonitor,
    begin: Instant,
    captured: u64,
    requests: Receiver<SyncSender<Snapshot>>,
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
    /// Set when the last file of `-a files:N` is full.
    no_more_files: bool,
    error: Option<ReceiveError>,
    flushed: Instant,
}

impl Recorder {
    pub fn new(setup: Setup, requests: Receiver<SyncSender<Snapshot>>) -> Self {
        let statuses = setup.queue.statuses();
        let checks: Vec<Check> =
            setup.interfaces.into_iter().zip(statuses).map(Check::new).collect();
        let observer = Observer::start(setup.observer, setup.observer_share);
        let samples = checks.iter().map(|_| Sample::default());
        let samples = if checks.len() > 1 { samples.collect() } else { Vec::new() };
        Recorder {
            queue: setup.queue,
            samples,
            clock: ClockMonitor::new(checks.len()),
            checks,
            files: setup.files,
            observer,
            limits: setup.limits,
            begin: Instant::now(),
            captured: 0,
            requests,
            stop: setup.stop,
            interrupted: setup.interrupted,
            no_more_files: false,
            error: None,
            flushed: Instant::now(),
        }
    }

    pub fn run(mut self) -> Outcome {
        loop {
            self.answer();
            if self.is_over() {
                self.queue.stop();
            }
            let delivery = self.queue.next();
            self.clock.check(self.captured);
            match delivery {
                Delivery::Batch(link, batch) => self.take(link, batch),
                Delivery::Idle => self.idle(),
                Delivery::Ended => break,
            }
            if self.is_full() {
                break;
            }
        }
        self.finish()
    }

    /// Whether a limit is reached at which recording ends at once. Frames that are still queued are
    /// not recorded.
    fn is_full(&mut self) -> bool {
        let Limits { frames, bytes, .. } = self.limits;
        self.no_more_files
            || frames.is_some_and(|frames| self.captured >= frames)
            || bytes.is_some_and(|bytes| {
                self.files.as_mut().is_some_and(|files| files.bytes() >= bytes)
            })
    }

    /// Whether the sources must stop.
    fn is_over(&mut self) -> bool {
        let duration = self.limits.duration;
        self.stop.load(Ordering::Relaxed)
            || self.interrupted.load(Ordering::Relaxed)
            || self.error.is_some()
            || duration.is_some_and(|duration| self.begin.elapsed() >= duration)
            || self.limits.until_end && self.each_ended(END_REPEATS.into())
    }

    /// Whether every card has ended its capture and sent this number of end frames.
    fn each_ended(&self, times: u64) -> bool {
        self.checks.iter().all(|check| check.has_ended(times))
    }

    fn take(&mut self, link: usize, batch: Batch) {
        let (waiting, capacity) = self.queue.fill();
        let hurry = waiting * 2 > capacity;
        for frame in batch.frames() {
            self.rotate_if_due();
            if self.is_full() {
                break;
            }
            self.captured += 1;
            self.clock.frame(link, frame.time, self.captured);
            self.write(link, &frame, hurry);
            self.checks[link].frame(link, &frame);
            if let Some(sample) = self.samples.get_mut(link) {
                sample.frame(frame.bytes);
            }
        }
        self.observer.pass(link, &batch);
        self.queue.recycle(link, batch);
        // At low rates the staging fills slowly, so it is flushed after a fixed time.
        if !hurry && self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush();
        }
    }

    #[inline]
    fn write(&mut self, link: usize, frame: &Captured<'_>, hurry: bool) {
        let Some(files) = &mut self.files else { return };
        files.frame(link, frame);
        let settled = files.settle(hurry);
        self.recover_if_failed(settled);
    }

    /// Recovers from a failed write.
    #[inline]
    fn recover_if_failed(&mut self, result: Result<(), WriteError>) {
        if let Err(error) = result {
            self.recover(error);
        }
    }

    #[inline]
    fn rotate_if_due(&mut self) {
        if self.files.as_mut().is_some_and(CaptureFiles::is_due) {
            let rotated = self.rotate();
            self.recover_if_failed(rotated);
        }
    }

    fn rotate(&mut self) -> Result<(), WriteError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        if self.limits.files == Some(files.count()) {
            self.no_more_files = true;
            return Ok(());
        }
        let (descriptions, statistics) = self.file_metadata();
        let Some(files) = &mut self.files else { return Ok(()) };
        files.rotate(&descriptions, &statistics)
    }

    /// Descriptions for the start of a file, and statistics for its end.
    fn file_metadata(&self) -> (Vec<Description>, Statistics) {
        (
            self.checks.iter().map(Check::description).collect(),
            statistics(&self.links(), &self.clock.steps()),
        )
    }

    fn recover(&mut self, error: WriteError) {
        let (descriptions, statistics) = self.file_metadata();
        let Some(files) = &mut self.files else { return };
        if let Err(error) = files.recover(error, &descriptions, &statistics) {
            self.error.get_or_insert(error.into());
        }
    }

    /// Does the work that can wait until no frames arrive.
    fn idle(&mut self) {
        if self.limits.until_end && self.each_ended(1) {
            self.queue.stop();
        }
        self.rotate_if_due();
        self.flush();
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        let flushed = self.files.as_mut().map_or(Ok(()), CaptureFiles::flush);
        self.recover_if_failed(flushed);
    }

    fn links(&self) -> Vec<Link> {
        self.checks.iter().map(Check::link).collect()
    }

    /// Answers requests for snapshots.
    fn answer(&mut self) {
        while let Ok(request) = self.requests.try_recv() {
            let links = self.links();
            // Fails only if the requester no longer waits.
            let _ = request.send(self.snapshot(links));
        }
    }

    fn snapshot(&mut self, links: Vec<Link>) -> Snapshot {
        let lost_files = self.files.as_ref().map(|files| files.lost().clone());
        let (file, written_bytes, files, unwritten_frames) = match &mut self.files {
            Some(files) => (Some(files.path()), files.bytes(), files.count(), files.unwritten()),
            None => (None, 0, 0, 0),
        };
        Snapshot {
            wall: SystemTime::now(),
            elapsed: self.begin.elapsed(),
            file,
            written_bytes,
            files,
            unwritten_frames,
            lost_files: lost_files.unwrap_or_default(),
            clock_steps: self.clock.steps(),
            queue: self.queue.fill(),
            skipped_frames: self.observer.skipped(),
            links,
        }
    }

    fn finish(mut self) -> Outcome {
        self.flush();
        let mut snapshot = self.snapshot(Vec::new());
        let endings = self.queue.finish();
        let mut error = self.error;
        for (check, ending) in self.checks.into_iter().zip(endings) {
            if let Some(failed) = ending.error {
                error.get_or_insert(failed.into());
            }
            snapshot.links.push(check.finish(ending.statistics));
        }
        mirrors::find(&mut snapshot.links, &self.samples);
        if let Some(files) = self.files {
            let (bytes, lost, finished) =
                files.finish(&statistics(&snapshot.links, &snapshot.clock_steps));
            (snapshot.written_bytes, snapshot.lost_files) = (bytes, lost);
            if let Err(failed) = finished {
                error.get_or_insert(failed.into());
            }
        }
        snapshot.skipped_frames = self.observer.finish();
        Outcome::new(snapshot, error)
    }
}
