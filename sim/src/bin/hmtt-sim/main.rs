//! The command `hmtt-sim`: replays a recording through the simulated card, or makes one, and sets
//! the exit status from the outcome.

#![deny(clippy::print_stderr)]

/// Prints lines on standard error, for people. Text from files, paths and programs is escaped, so
/// that it cannot control the terminal.
macro_rules! report {
    ($($message:tt)*) => {{
        use std::io::Write as _;
        let text = format!($($message)*);
        let _ = writeln!(std::io::stderr(), "{}", hmtt_format::escape::lines(&text));
    }};
}

use std::process::ExitCode;

use clap::Parser;
use hmtt_format::escape;

mod args;
mod record;
mod report;
mod run;
mod saturate;

use args::{Arguments, Command};

/// Exit status when the card has a defect.
const FOUND: u8 = 1;
/// Exit status when the replay could not be done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let verdict = |is_right| if is_right { ExitCode::SUCCESS } else { ExitCode::from(FOUND) };
    let arguments = Arguments::try_parse().unwrap_or_else(|error| wrong_usage(&error));
    let outcome = match arguments.command {
        Command::Replay(arguments) => run::replay(&arguments).map(verdict),
        Command::Saturate(arguments) => saturate::saturate(&arguments).map(verdict),
        Command::Record(arguments) => record::record(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            report!("hmtt-sim: {}", escape::message(&format!("{error:#}")));
            ExitCode::from(if run::is_card_defect(&error) { FOUND } else { FAILED })
        }
    }
}

/// Prints an error in the arguments, or the help, and ends.
fn wrong_usage(error: &clap::Error) -> ! {
    let is_plain = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy();
        escape::lines(&text).to_string() == text
    };
    // An error in colours is printed only if no argument needs escaping.
    if std::env::args_os().all(is_plain) {
        error.exit();
    }
    report!("{}", error.render().to_string().trim_end());
    std::process::exit(error.exit_code())
}
