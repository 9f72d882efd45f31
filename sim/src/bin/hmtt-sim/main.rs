//! `hmtt-sim`: command line to replay, outcome to exit status.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod report;
mod run;
mod saturate;

use args::{Arguments, Command};

/// The card is not right.
const FOUND: u8 = 1;
/// The replay could not be done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Replay(arguments) => run::replay(&arguments),
        Command::Saturate(arguments) => saturate::saturate(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        Err(error) => {
            eprintln!("hmtt-sim: {error:#}");
            ExitCode::from(if run::is_finding(&error) { FOUND } else { FAILED })
        }
    }
}
