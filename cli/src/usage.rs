//! Errors in how options are combined, which end with the status of wrong usage as those do that
//! clap finds.

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

/// Prints an error in the arguments, or the help, and ends. Arguments that the error quotes may be
/// names of files, so control characters in them are escaped, or URLs with credentials.
pub fn exit(error: &Error) -> ! {
    let is_plain = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy();
        shown(&text) == text
    };
    if std::env::args_os().all(is_plain) {
        error.exit();
    }
    report!("{}", shown(&error.render().to_string()).trim_end());
    std::process::exit(error.exit_code())
}

/// A text of several lines as it is printed.
fn shown(text: &str) -> String {
    let text = hmtt_format::credentials::hidden(text).to_string();
    hmtt_format::escape::lines(&text).to_string()
}

/// Prints an error if it is one of wrong usage. Returns whether it is.
pub fn print_usage_error(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<Error>() else { return false };
    // Without standard error there is no place to report to.
    let _ = error.print();
    true
}
