//! Made-up commands, legal and illegal, through the card for as long as wanted: `fuzz [SECONDS] [SEED]`.
//!
//! A case that fails prints its seed and leaves a vector and its memory for `hmtt-sim replay`.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hmtt_sim::fuzz::memories;
use hmtt_tests::fuzz::try_case;

const COMMANDS: usize = 40_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut number = |default| arguments.next().unwrap_or(Ok(default));
    let (Ok(seconds), Ok(first)) = (number(60), number(1)) else {
        eprintln!("fuzz [SECONDS] [SEED]: two numbers");
        return ExitCode::from(2);
    };
    let (start, mut seed) = (Instant::now(), first);
    while start.elapsed() < Duration::from_secs(seconds) {
        let text = memories::ALL[(seed % memories::ALL.len() as u64) as usize];
        if let Err(failure) = try_case(text, seed, COMMANDS, Path::new("target")) {
            eprintln!("{failure}");
            return ExitCode::FAILURE;
        }
        seed += 1;
    }
    let cases = seed - first;
    println!("seeds {first} to {}: {} commands, all equal", seed - 1, cases * COMMANDS as u64);
    ExitCode::SUCCESS
}
