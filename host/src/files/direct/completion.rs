//! Ends a file: finishes it with the right length, or removes it, and detects that it is no longer
//! at its path.

use std::io;

use rustix::fs::{FlockOperation, flock};

use super::{DiskFile, Kind};
use crate::files::directory::Identity;
use crate::files::durability::{LostFile, UnsyncedFile};

/// Result of ending a file.
#[derive(Debug)]
pub struct Finished {
    /// Length of the file in bytes.
    pub length: u64,
    /// The first error of the last writes.
    pub result: io::Result<()>,
    /// The file, which still has to be made durable; `None` for a stream.
    pub unsynced: Option<UnsyncedFile>,
    /// Set if the file is no longer at its path.
    pub lost: Option<LostFile>,
}

impl DiskFile {
    /// Identity of the file; `None` for a stream.
    pub fn identity(&self) -> Option<Identity> {
        match &self.kind {
            Kind::Named(_, identity) => Some(*identity),
            Kind::Stream(_) => None,
        }
    }

    /// Removes the file, because its content is written elsewhere. A file that no longer has its
    /// name is left alone.
    pub fn discard(self) {
        if let Kind::Named(entry, identity) = &self.kind {
            // If the file cannot be removed, the next creation under the name reports the reason.
            let _ = entry.remove_if(*identity);
        }
    }

    /// Writes all staged bytes and frees reserved space. After a failure the file ends at its last
    /// mark. The caller must make the file in `unsynced` durable.
    pub fn finish(mut self) -> Finished {
        self.finishing = true;
        if !self.is_named() {
            let result = self.drain(false);
            return Finished { length: self.at, result, unsynced: None, lost: None };
        }
        let flushed = self.flush();
        let length = if flushed.is_ok() { self.len() } else { self.safe };
        let result = flushed.and(self.file.set_len(length));
        // From here on other captures of the same name may remove the file.
        let _ = flock(&self.file, FlockOperation::Unlock);
        let DiskFile { path, file, kind, .. } = self;
        let Kind::Named(entry, identity) = kind else {
            return Finished { length, result, unsynced: None, lost: None };
        };
        let lost = LostFile::find(&entry, identity, &file);
        Finished { length, result, unsynced: Some(UnsyncedFile { path, file, entry }), lost }
    }
}
