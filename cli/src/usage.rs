//! Errors in how options are combined, which end with the status of wrong usage as those do that clap finds.

use clap::error::Error;

/// Exit status of wrong usage.
pub const EXIT_USAGE: u8 = 2;

/// Refuses a combination of options unless a condition holds.
///
/// # Errors
/// It does not hold. `message` says what is wrong; it may have names that come from outside.
#[cfg(feature = "analysis")]
pub fn ensure_usage(condition: bool, message: impl FnOnce() -> String) -> anyhow::Result<()> {
    if condition {
        return Ok(());
    }
    let text = format!("{}\n", hmtt_format::escape::message(&message()));
    let error: Error = Error::raw(clap::error::ErrorKind::ArgumentConflict, text);
    Err(error.into())
}

/// Prints an error if it is one of wrong usage. Returns whether it is.
pub fn print_usage_error(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<Error>() else { return false };
    // Without standard error there is no place to report to.
    let _ = error.print();
    true
}
