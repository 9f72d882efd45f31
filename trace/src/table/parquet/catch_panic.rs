//! Turns panics of the Parquet library on damaged files into errors. The library checks most of
//! what it reads, but not all of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use ::parquet::errors::Result;

use crate::table::TableError;

thread_local! {
    /// Whether this thread executes code of the library, whose panics are caught.
    static IS_IN_LIBRARY: Cell<bool> = const { Cell::new(false) };
}

/// Calls `read` and returns its result, or an error if it panics. After an error the objects that
/// `read` used must not be used again.
///
/// # Errors
/// As `read` returns it, or that the library has panicked.
pub fn catch_panic<T>(read: impl FnOnce() -> Result<T>) -> std::result::Result<T, TableError> {
    match catch_unwind(AssertUnwindSafe(|| with_flag(true, read))) {
        Ok(result) => Ok(result?),
        Err(_) => {
            IS_IN_LIBRARY.set(false);
            Err(TableError::Schema("the file is damaged: it cannot be decoded".into()))
        }
    }
}

/// Calls code of this crate from within the library. Its panics are errors of this crate, and are
/// printed.
pub(super) fn outside_library<T>(call: impl FnOnce() -> T) -> T {
    with_flag(false, call)
}

fn with_flag<T>(is_in_library: bool, call: impl FnOnce() -> T) -> T {
    let before = IS_IN_LIBRARY.replace(is_in_library);
    let result = call();
    IS_IN_LIBRARY.set(before);
    result
}

/// Prints no message for panics of the Parquet library, which [`super::ParquetReader`] returns as
/// errors. For programs: it changes the panic hook of the process.
pub fn hide_caught_panics() {
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        if !IS_IN_LIBRARY.get() {
            hook(panic);
        }
    }));
}
