//! Reports wrong combinations of options. Such errors end the command with the same exit status as
//! the usage errors that clap finds.

use clap::error::Error;

/// Exit status of wrong usage.
pub const EXIT_USAGE: u8 = 2;

/// Returns a usage error unless `condition` holds.
///
/// # Errors
/// The condition does not hold. `message` makes the text, which may contain names that come from
/// outside.
#[cfg(feature = "analysis")]
pub fn ensure_usage(condition: bool, message: impl FnOnce() -> String) -> anyhow::Result<()> {
    if condition {
        return Ok(());
    }
    let text = format!("{}\n", hmtt_format::escape::message(&message()));
    let error: Error = Error::raw(clap::error::ErrorKind::ArgumentConflict, text);
    Err(error.into())
}

/// Prints an error in the arguments, or the help, and ends the process. The error may quote
/// arguments. File names are printed without control characters, and URLs without their
/// credentials.
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

/// Makes a text of several lines safe to print: escapes control characters and hides credentials.
fn shown(text: &str) -> String {
    let text = hmtt_format::credentials::hidden(text).to_string();
    hmtt_format::escape::lines(&text).to_string()
}

/// Prints an error if it is a usage error. Returns whether it is one.
pub fn print_usage_error(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<Error>() else { return false };
    // If standard error cannot be written, there is no other place to report to.
    let _ = error.print();
    true
}
