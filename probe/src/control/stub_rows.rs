//! Unwind rows of the stubs in a process.

use crate::address::FileAddr;
use crate::unwind::Row;

/// Unwind rows of stubs.
#[derive(Clone, Debug, Default)]
pub(super) struct StubRows {
    /// Rows in ascending order; addresses are those of the file.
    pub rows: Vec<Row>,
    /// Address behind the last stub.
    pub end: FileAddr,
}
