//! `hmtt sql`: executes `hmtt-sql`.

#[allow(dead_code, reason = "the program reads them")]
mod options;

use std::ffi::OsString;

use anyhow::Result;
use clap::CommandFactory;

use super::scale_program;

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

/// Runs the command. Returns only with an error.
pub fn run(arguments: &Arguments) -> Result<bool> {
    scale_program::execute("hmtt-sql", &arguments.arguments)
}

/// The definition of the program's arguments, for completions and man pages.
pub fn definition() -> clap::Command {
    options::Arguments::command().name("sql")
}
