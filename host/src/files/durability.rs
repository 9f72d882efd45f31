//! Makes ended files durable against a loss of power, on a separate thread.
//!
//! `fsync` may take as long as the disk needs to write the whole page cache; meanwhile the recorder
//! writes frames to the next file. Invariant: when [`Syncer::finish`] returns, each file that was
//! passed to [`Syncer`] is durable with its directory, or the error of the file was returned.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::WriteError;
use super::directory::{Entry, Identity};

/// Number of files that may be queued; each keeps a descriptor open.
const WAITING_FILES: usize = 16;
/// Number of lost files that are listed individually.
const LISTED_FILES: usize = 100;

/// A file that is completely written and not yet durable.
#[derive(Debug)]
pub struct UnsyncedFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) entry: Entry,
}

impl UnsyncedFile {
    fn sync(&self) -> Result<(), WriteError> {
        let failed = |source| WriteError::Sync { path: self.path.clone(), source };
        self.file.sync_all().map_err(failed)?;
        self.entry.directory().sync().map_err(failed)
    }
}

/// The thread that makes files durable.
#[derive(Debug)]
pub struct Syncer {
    files: SyncSender<UnsyncedFile>,
    errors: Receiver<WriteError>,
    thread: JoinHandle<()>,
}

impl Syncer {
    /// Starts the thread.
    pub fn start() -> Self {
        let (files, ended) = sync_channel::<UnsyncedFile>(WAITING_FILES);
        let (failed, errors) = channel();
        Syncer { files, errors, thread: thread::spawn(move || run(&ended, &failed)) }
    }

    /// Queues a file; waits while the queue is full.
    ///
    /// # Errors
    /// The error of an earlier file.
    pub fn hand_over(&self, file: UnsyncedFile) -> Result<(), WriteError> {
        // Cannot fail: the thread runs as long as `self` exists.
        let _ = self.files.send(file);
        self.errors.try_recv().map_or(Ok(()), Err)
    }

    /// Waits until all files are durable.
    ///
    /// # Errors
    /// The first error that was not returned before.
    pub fn finish(self) -> Result<(), WriteError> {
        let Syncer { files, errors, thread } = self;
        drop(files);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        errors.try_recv().map_or(Ok(()), Err)
    }
}

fn run(ended: &Receiver<UnsyncedFile>, failed: &Sender<WriteError>) {
    for file in ended {
        if let Err(error) = file.sync() {
            // Fails only if the capture has failed and does not wait for errors.
            let _ = failed.send(error);
        }
    }
}

/// A file that was not at its path when it was finished.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LostFile {
    /// Path at which the file was created.
    pub path: PathBuf,
    /// What happened to the file.
    pub fate: Fate,
}

/// What happened to a file while it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The file has no name left: its content is lost.
    Removed,
    /// Another file has the name; this one may have another name.
    Replaced,
    /// No file has the name; this one has another name.
    Renamed,
}

impl LostFile {
    /// Checks whether a file still has its name; `None` if it does.
    pub(super) fn find(entry: &Entry, identity: Identity, file: &File) -> Option<Self> {
        let lookup: io::Result<_> = entry.identity();
        let is_linked = rustix::fs::fstat(file).is_ok_and(|status| status.st_nlink != 0);
        let fate = match lookup {
            Ok(Some(current)) if current == identity => return None,
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
    /// Number of files.
    pub count: u64,
    /// The first 100 files.
    pub listed: Vec<LostFile>,
}

impl LostFiles {
    /// Adds a file.
    pub fn push(&mut self, file: LostFile) {
        self.count += 1;
        if self.listed.len() < LISTED_FILES {
            self.listed.push(file);
        }
    }
}
