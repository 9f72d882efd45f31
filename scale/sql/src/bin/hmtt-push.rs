//! The program `hmtt-push`, which `hmtt dataset push` executes.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use hmtt_dataset::Dataset;
use hmtt_format::escape;
use hmtt_sql::push::{self, Options, Pushed};
use hmtt_sql::remote::Location;

/// Copy the parts of a data set to an object store, where `hmtt sql` and databases read them
#[derive(Debug, Parser)]
#[command(
    name = "hmtt dataset push",
    version,
    after_help = "Parts that are there already are left out, so it can be repeated, and goes on after an interruption. \
    Credentials and endpoints are those of the usual environment variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, \
    AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP; GOOGLE_SERVICE_ACCOUNT; AZURE_STORAGE_ACCOUNT_NAME, \
    AZURE_STORAGE_ACCOUNT_KEY."
)]
struct Arguments {
    /// Folder of the data set
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER
    #[arg(value_name = "URL")]
    url: String,
    /// Read all parts from the object store, and compare their BLAKE3 hashes with those of the files
    #[arg(long)]
    verify: bool,
    /// Where parts were merged after they had been copied, remove those that the data set does not have any more
    #[arg(long)]
    replace: bool,
}

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
            let message = format!("hmtt dataset push: {error:#}");
            let _ = writeln!(io::stderr(), "{}", escape::message(&message));
            ExitCode::FAILURE
        }
    }
}
