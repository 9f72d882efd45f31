//! The command `hmtt-sim`: replays a recording through the simulated card, or makes one, and sets the exit status from the
//! outcome.

use std::process::ExitCode;

use clap::Parser;

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
    let outcome = match Arguments::parse().command {
        Command::Replay(arguments) => run::replay(&arguments).map(verdict),
        Command::Saturate(arguments) => saturate::saturate(&arguments).map(verdict),
        Command::Record(arguments) => record::record(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hmtt-sim: {error:#}");
            ExitCode::from(if run::is_card_defect(&error) { FOUND } else { FAILED })
        }
    }
}
