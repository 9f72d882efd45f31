//! Turns panics of the Parquet library on damaged files into errors. The library checks most of what it reads, but
//! not all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::errors::Result;

use crate::table::TableError;

/// Calls `read` and returns its result, or an error if it panics. After an error the objects that `read` used
/// must not be used again.
pub(super) fn catch_panic<T>(
    read: impl FnOnce() -> Result<T>,
) -> std::result::Result<T, TableError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(TableError::Schema("the file is damaged: it cannot be decoded".into())),
    }
}
