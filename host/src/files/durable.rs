//! Ended files to files that survive a loss of power, on a thread of their own.
//!
//! `fsync` may take as long as the disk needs for all that is in the page cache; meanwhile frames go to the next
//! file. Invariant: [`Syncer::finish`] returns only after every file that was handed over, and its
//! directory, is durable or has its error reported.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::WriteError;
use super::directory::{Entry, Identity};

/// Files that may wait; each holds a descriptor.
const WAITING_FILES: usize = 16;
/// Lost files that are listed one by one.
const LISTED_FILES: usize = 100;

/// A file that is written to its end.
#[derive(Debug)]
pub struct Ended {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) entry: Entry,
}

impl Ended {
    fn sync(&self) -> Result<(), WriteError> {
        let failed = |source| WriteError::Sync { path: self.path.clone(), source };
        self.file.sync_all().map_err(failed)?;
        self.entry.directory().sync().map_err(failed)
    }
}

/// The thread that makes files durable.
#[derive(Debug)]
pub struct Syncer {
    files: SyncSender<Ended>,
    errors: Receiver<WriteError>,
    thread: JoinHandle<()>,
}

impl Syncer {
    /// Starts the thread.
    pub fn start() -> Self {
        let (files, ended) = sync_channel::<Ended>(WAITING_FILES);
        let (failed, errors) = channel();
        Syncer { files, errors, thread: thread::spawn(move || run(&ended, &failed)) }
    }

    /// Hands a file over; waits while too many wait. An error is one of an earlier file.
    pub fn hand_over(&self, file: Ended) -> Result<(), WriteError> {
        // The thread ends only after this value does.
        let _ = self.files.send(file);
        self.errors.try_recv().map_or(Ok(()), Err)
    }

    /// Waits for all files. The first error that was not returned before is returned.
    pub fn finish(self) -> Result<(), WriteError> {
        let Syncer { files, errors, thread } = self;
        drop(files);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        errors.try_recv().map_or(Ok(()), Err)
    }
}

fn run(ended: &Receiver<Ended>, failed: &Sender<WriteError>) {
    for file in ended {
        if let Err(error) = file.sync() {
            // Nobody listens once the capture has failed.
            let _ = failed.send(error);
        }
    }
}

/// A file that was not at its path when it was finished.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LostFile {
    /// Where it was.
    pub path: PathBuf,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a file under us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// No name is left: its content is gone.
    Removed,
    /// Something else has its name; the file may have another.
    Replaced,
    /// Nothing has its name, but the file has another.
    Renamed,
}

impl LostFile {
    /// Looks whether a file is still at its name.
    pub(super) fn find(entry: &Entry, identity: Identity, file: &File) -> Option<Self> {
        let found: io::Result<_> = entry.identity();
        let is_linked = rustix::fs::fstat(file).is_ok_and(|status| status.st_nlink != 0);
        let fate = match found {
            Ok(Some(found)) if found == identity => return None,
            Ok(Some(_)) => Fate::Replaced,
            Ok(None) | Err(_) if is_linked => Fate::Renamed,
            Ok(None) | Err(_) => Fate::Removed,
        };
        Some(LostFile { path: entry.path(), fate })
    }
}

/// Files that were removed or replaced while they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostFiles {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub listed: Vec<LostFile>,
}

impl LostFiles {
    /// Adds one.
    pub fn push(&mut self, file: LostFile) {
        self.count += 1;
        if self.listed.len() < LISTED_FILES {
            self.listed.push(file);
        }
    }
}
