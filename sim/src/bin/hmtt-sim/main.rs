//! The command `hmtt-sim`: replays a recording through the simulated card, or makes one, and sets the exit status from the
//! outcome.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod record;
mod record_args;
mod report;
mod run;
mod saturate;

use args::{Arguments, Command};

/// Exit status when the card has a defect.
const FOUND: u8 = 1;
/// Exit status when the replay could not be done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Replay(arguments) => run::replay(&arguments),
        Command::Saturate(arguments) => saturate::saturate(&arguments),
        Command::Record(arguments) => record::record(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        Err(error) => {
            eprintln!("hmtt-sim: {error:#}");
            ExitCode::from(if run::is_card_defect(&error) { FOUND } else { FAILED })
        }
    }
}
