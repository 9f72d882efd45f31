//! Stubs as the unwinders of a process are to see them.

use crate::unwind::Row;

/// Stubs to be described.
#[derive(Clone, Debug, Default)]
pub(super) struct Described {
    /// In ascending order, in addresses of the file.
    pub rows: Vec<Row>,
    /// Address behind the last one.
    pub end: u64,
}
