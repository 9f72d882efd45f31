//! Holds the unwind rows of stubs until they are encoded.

use crate::address::FileAddr;
use crate::unwind::Row;

/// Unwind rows of stubs.
#[derive(Clone, Debug, Default)]
pub(super) struct StubRows {
    /// Rows in ascending order. Their addresses are addresses in the file.
    pub rows: Vec<Row>,
    /// Address behind the last stub.
    pub end: FileAddr,
}
