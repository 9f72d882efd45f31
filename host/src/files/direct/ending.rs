//! The end of a file: whole and of the right length, removed, or no longer at its path.

use std::io;

use rustix::fs::{FlockOperation, flock};

use super::{DiskFile, Kind};
use crate::files::directory::Identity;
use crate::files::durable::{Ended, LostFile};

/// What came of a file.
#[derive(Debug)]
pub struct Finished {
    /// Bytes of it.
    pub length: u64,
    /// What failed.
    pub result: io::Result<()>,
    /// The file, still to be made durable.
    pub ended: Option<Ended>,
    /// Set if the file is not at its path.
    pub lost: Option<LostFile>,
}

impl DiskFile {
    /// What tells the file from others, if it has a name.
    pub fn identity(&self) -> Option<Identity> {
        match &self.kind {
            Kind::Named(_, identity) => Some(*identity),
            Kind::Stream(_) => None,
        }
    }

    /// Removes the file: what it was to hold goes elsewhere. One that is no longer at its name stays.
    pub fn discard(self) {
        if let Kind::Named(entry, identity) = &self.kind {
            // If it cannot be removed, the next attempt to create one says why.
            let _ = entry.remove_if(*identity);
        }
    }

    /// Writes what is left and frees what was reserved. After a failure the file ends at its last
    /// mark. Where the file still has its name, `ended` has what is left to be done: to make it durable.
    pub fn finish(mut self) -> Finished {
        self.finishing = true;
        if !self.is_named() {
            let result = self.drain(false);
            return Finished { length: self.at, result, ended: None, lost: None };
        }
        let flushed = self.flush();
        let length = if flushed.is_ok() { self.len() } else { self.safe };
        let result = flushed.and(self.file.set_len(length));
        // From now on other captures of the name may remove it.
        let _ = flock(&self.file, FlockOperation::Unlock);
        let DiskFile { path, file, kind, .. } = self;
        let Kind::Named(entry, identity) = kind else {
            return Finished { length, result, ended: None, lost: None };
        };
        let lost = LostFile::find(&entry, identity, &file);
        Finished { length, result, ended: Some(Ended { path, file, entry }), lost }
    }
}
