//! Converts panics of the Parquet library at damaged files to errors. The library checks most
//! values that it reads, but not all of them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use ::parquet::errors::Result;

use crate::table::TableError;

thread_local! {
    /// Whether this thread executes code of the library, so that a panic is caught and not printed.
    static IS_IN_LIBRARY: Cell<bool> = const { Cell::new(false) };
}

/// Calls `read` and returns its result, or an error if it panics. After an error the objects that
/// `read` used must not be used again.
///
/// # Errors
/// The error of `read`, or [`TableError::Schema`] if the library has panicked.
pub fn catch_panic<T>(read: impl FnOnce() -> Result<T>) -> std::result::Result<T, TableError> {
    match catch_unwind(AssertUnwindSafe(|| with_flag(true, read))) {
        Ok(result) => Ok(result?),
        Err(_) => {
            IS_IN_LIBRARY.set(false);
            Err(TableError::Schema("the file is damaged: it cannot be decoded".into()))
        }
    }
}

/// Calls code of this crate from within the library. A panic there is a bug of this crate, so it is
/// printed.
pub(super) fn outside_library<T>(call: impl FnOnce() -> T) -> T {
    with_flag(false, call)
}

/// Calls `call` with the flag set to `is_in_library`, and restores the flag. A panic leaves the
/// flag at `is_in_library`.
fn with_flag<T>(is_in_library: bool, call: impl FnOnce() -> T) -> T {
    let before = IS_IN_LIBRARY.replace(is_in_library);
    let result = call();
    IS_IN_LIBRARY.set(before);
    result
}

/// Suppresses the messages of panics in the Parquet library, which [`super::ParquetReader`] returns
/// as errors. Only programs should call this, because it changes the panic hook of the process.
pub fn hide_caught_panics() {
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        if !IS_IN_LIBRARY.get() {
            hook(panic);
        }
    }));
}
