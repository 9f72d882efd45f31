//! A panic of the library over a damaged file to an error. The library checks most of what it reads,
//! but not all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::errors::Result;

use crate::table::TableError;

/// What `read` returns; whatever it was at work on must not be used after an error.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> std::result::Result<T, TableError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(TableError::Schema("the file is damaged: it cannot be decoded".into())),
    }
}
