//! `hmtt sql`: executes `hmtt-sql`, or `hmtt-sql-cluster` if the arguments name a cluster.

#[allow(dead_code, reason = "the program reads them")]
mod options;

use std::ffi::OsString;

use anyhow::Result;
use clap::CommandFactory;

use super::scale_program::{self, Program};

/// The program that executes queries itself.
const EMBEDDED: Program = Program { name: "hmtt-sql", package: "hmtt-sql" };
/// The program that sends queries to a cluster.
const CLUSTER: Program = Program { name: "hmtt-sql-cluster", package: "hmtt-cluster" };

/// Query data sets and captures with SQL
#[derive(clap::Args)]
#[command(disable_help_flag = true, after_help = "`hmtt sql --help` has the options.")]
pub struct Arguments {
    /// The query, then data sets and captures
    #[arg(
        value_name = "QUERY, SOURCE",
        num_args = 0..,
        allow_hyphen_values = true,
        trailing_var_arg = true
    )]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program for the arguments. Returns only if that fails.
pub fn run(arguments: &Arguments) -> Result<bool> {
    scale_program::execute(program(&arguments.arguments), &arguments.arguments)
}

/// Selects the program for some arguments. Arguments after `--` are no options.
fn program(arguments: &[OsString]) -> Program {
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    let is_cluster = |argument: &OsString| {
        argument == "--cluster" || argument.as_encoded_bytes().starts_with(b"--cluster=")
    };
    if options.any(is_cluster) { CLUSTER } else { EMBEDDED }
}

/// The definition of the program's arguments, for completions and man pages.
pub fn definition() -> clap::Command {
    options::Arguments::command().name("sql")
}
