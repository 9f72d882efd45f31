//! Errors in how options are combined, which end with the status of wrong usage as those do that clap finds.

use anyhow::Result;
use clap::error::{Error, ErrorKind};
use hmtt_format::escape;

/// Exit status of wrong usage.
pub const EXIT_USAGE: u8 = 2;

/// Refuses a combination of options unless a condition holds.
///
/// # Errors
/// It does not hold. `message` says what is wrong; it may have names that come from outside.
pub fn ensure_usage(condition: bool, message: impl FnOnce() -> String) -> Result<()> {
    if condition {
        return Ok(());
    }
    let text = format!("{}\n", escape::message(&message()));
    let error: Error = Error::raw(ErrorKind::ArgumentConflict, text);
    Err(error.into())
}

/// Prints an error if it is one of wrong usage. Returns whether it is.
pub fn print_usage_error(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<Error>() else { return false };
    // Without standard error there is no place to report to.
    let _ = error.print();
    true
}
