//! Takes objects of libCacheSim for lines, and counts what that leaves out.
//!
//! An object is taken for the line of 64 bytes with its number, so that analyses by line are
//! analyses by object; its size is not used.

use hmtt_format::Direction;

use super::ImportedAccess;
use crate::table::requests::LINE_BYTES;

/// Objects that have a line: numbers from 2^58 on are taken modulo 2^58.
const OBJECTS: u64 = u64::MAX / LINE_BYTES + 1;

/// Requests for objects, up to here.
#[derive(Default)]
pub struct Objects {
    /// Requests whose objects were taken modulo 2^58.
    folded: u64,
    /// Requests without an operation that is known.
    undirected: u64,
}

impl Objects {
    /// The access of a request.
    pub fn access(
        &mut self,
        clock: u64,
        object: u64,
        direction: Option<Direction>,
    ) -> ImportedAccess {
        self.undirected += u64::from(direction.is_none());
        self.folded += u64::from(object >= OBJECTS);
        let address = object % OBJECTS * LINE_BYTES;
        let access = ImportedAccess::new(direction.unwrap_or(Direction::Read), address);
        ImportedAccess { clock, ..access }
    }

    /// What limits results.
    pub fn notes(&self) -> Vec<String> {
        let lines = "an object is taken for a line of 64 bytes, whatever its size";
        let mut notes = vec![lines.to_owned()];
        if self.undirected > 0 {
            notes.push(format!(
                "of {} requests it is not known whether they read or write: they count as reads",
                self.undirected
            ));
        }
        if self.folded > 0 {
            notes.push(format!("the numbers of {} objects are taken modulo 2^58", self.folded));
        }
        notes
    }
}
