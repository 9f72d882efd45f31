//! The program `hmtt-sql-cluster`, which `hmtt sql --cluster` executes.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use hmtt_cluster::{Address, ClusterEngine, SchedulerAccess, Secret};
use hmtt_sql::command::{Arguments, run, with_large_stack};

/// DataFusion allocates and frees many small pieces from several threads, which this allocator does
/// fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let address = scheduler(&arguments)
        .unwrap_or_else(|(kind, reason)| Arguments::command().error(kind, reason).exit());
    with_large_stack(move || {
        run(&arguments, |sources, options| {
            let secret = Secret::read(arguments.secret_file.as_deref())?;
            let access = SchedulerAccess { address, secret };
            Ok(ClusterEngine::new(sources, options, access, arguments.tasks)?)
        })
    })
}

/// The address of the scheduler.
fn scheduler(arguments: &Arguments) -> Result<Address, (ErrorKind, String)> {
    let Some(text) = &arguments.cluster else {
        return Err((ErrorKind::MissingRequiredArgument, "--cluster HOST:PORT is missing".into()));
    };
    text.parse::<Address>().map_err(|expected| {
        (
            ErrorKind::ValueValidation,
            format!("invalid value '{text}' for --cluster: expected {expected}"),
        )
    })
}
