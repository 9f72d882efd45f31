//! Converts requests for objects, as in libCacheSim's formats, to accesses of lines.
//!
//! An object becomes the line of 64 bytes that has the object's number. So analyses by line become
//! analyses by object. The size of an object is not used.

use hmtt_format::Direction;

use super::ImportedAccess;
use crate::table::requests::LINE_BYTES;

/// Number of objects that have a line of their own. Object numbers of 2^58 and more are taken
/// modulo 2^58.
const OBJECTS: u64 = u64::MAX / LINE_BYTES + 1;

/// Counts of the converted requests.
#[derive(Default)]
pub struct Objects {
    /// Number of requests whose object numbers were taken modulo 2^58.
    folded: u64,
    /// Number of requests whose operation is not known. They count as reads.
    undirected: u64,
}

impl Objects {
    /// Converts a request to an access. `clock`: time of the request.
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

    /// Sentences on the limits of the results.
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
