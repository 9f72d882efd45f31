//! `hmtt sql`: executes `hmtt-sql`.

use std::ffi::OsString;

use anyhow::Result;

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
