//! The program `hmtt-push`, which `hmtt dataset push` executes.

#[path = "../../../../cli/src/dataset/push/options.rs"]
mod options;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use hmtt_dataset::Dataset;
use hmtt_format::credentials::hidden;
use hmtt_format::escape;
use hmtt_sql::push::{self, Options, Pushed};
use hmtt_sql::remote::Location;
use options::Arguments;

fn run(arguments: &Arguments) -> Result<Pushed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let to = Location::new(&arguments.url)?;
    let dataset = Dataset::open(&arguments.folder)?;
    let options = Options { verifies: arguments.verify, replaces: arguments.replace };
    Ok(runtime.block_on(push::push(&dataset, &to, options))?)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(Pushed { parts, bytes, present, removed, verified }) => {
            let mut text = format!("{parts} parts copied, {bytes} bytes; {present} were there");
            if removed != 0 {
                text.push_str(&format!("; {removed} merged ones removed"));
            }
            if arguments.verify {
                text.push_str(&format!("; {verified} compared"));
            }
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let message = hidden(&format!("hmtt dataset push: {error:#}")).to_string();
            let _ = writeln!(io::stderr(), "{}", escape::message(&message));
            ExitCode::FAILURE
        }
    }
}
