//! Fuzzes the card with random commands, settings and switches, and every reader with random
//! inputs, each for a given time: `fuzz [SECONDS] [SEED]`.
//!
//! If a case fails, the program prints its seed, and writes a vector and its memory for `hmtt-sim
//! replay`. If an input fails, it is stored in `target/fuzz/corpus`. The corpus also contains the
//! inputs that earlier runs have found, and each run starts from them.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hmtt_fuzz::targets::names;
use hmtt_sim::fuzz::memories;
use hmtt_tests::fuzz::try_case;
use hmtt_tests::hostile::{BuildError, Targets};
use hmtt_tests::oracle::{Failure, try_seed};

const COMMANDS: usize = 40_000;
/// Number of commands of a case with settings. Short cases cover more different settings.
const HOSTILE_COMMANDS: usize = 1_500;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut number = |default| arguments.next().unwrap_or(Ok(default));
    let (Ok(seconds), Ok(first)) = (number(60), number(1)) else {
        eprintln!("fuzz [SECONDS] [SEED]: two numbers");
        return ExitCode::from(2);
    };
    let failed = commands(seconds, first)
        .and_then(|()| whole_cards(seconds, first))
        .and_then(|()| inputs(seconds, first));
    match failed {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn commands(seconds: u64, first: u64) -> Result<(), String> {
    let (start, mut seed) = (Instant::now(), first);
    while start.elapsed() < Duration::from_secs(seconds) {
        let text = memories::ALL[(seed % memories::ALL.len() as u64) as usize];
        try_case(text, seed, COMMANDS, Path::new("target"))?;
        seed += 1;
    }
    let cases = seed - first;
    println!("seeds {first} to {}: {} commands, all equal", seed - 1, cases * COMMANDS as u64);
    Ok(())
}

/// Compares hostile commands, settings and switches with the model of the whole card.
fn whole_cards(seconds: u64, first: u64) -> Result<(), String> {
    let (start, mut seed, mut losing, mut unknown) = (Instant::now(), first, 0, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        match try_seed(seed, HOSTILE_COMMANDS, Path::new("target")) {
            Ok((_, verdict)) => {
                losing += u64::from(verdict.lost > 0);
                unknown += u64::from(verdict.lost_command);
            }
            Err(Failure::Missing(what)) => {
                println!("skipped: settings and switches: {what}");
                return Ok(());
            }
            Err(Failure::Wrong(what)) => return Err(what),
        }
        seed += 1;
    }
    println!(
        "seeds {first} to {}: all as the model of the card says; {losing} with losses, {unknown} of \
         them of commands",
        seed - 1
    );
    Ok(())
}

/// Runs each target in turn.
fn inputs(seconds: u64, seed: u64) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz");
    let targets = match Targets::build(&folder) {
        Ok(targets) => targets,
        Err(BuildError::Missing(what)) => {
            println!("skipped: random inputs: {what}");
            return Ok(());
        }
        Err(BuildError::Failed(what)) => return Err(what),
    };
    for target in names() {
        targets.run(target, &folder.join("corpus"), seconds, seed)?;
        println!("{target}: {seconds} s of random inputs, all read correctly");
    }
    Ok(())
}
