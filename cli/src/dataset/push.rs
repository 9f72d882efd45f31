//! `hmtt dataset push`: executes `hmtt-push`, which copies a data set to an object store.

#[allow(dead_code, reason = "the program reads them")]
mod options;

use std::ffi::OsString;

use anyhow::Result;
use clap::CommandFactory;

use crate::scale_program::{self, Program};

const PROGRAM: Program = Program { name: "hmtt-push", package: "hmtt-sql" };

/// Copy a data set to an object store (S3, Google Cloud Storage, Azure)
#[derive(clap::Args)]
#[command(disable_help_flag = true, after_help = "`hmtt dataset push --help` has the options.")]
pub struct Arguments {
    /// The data set, then the URL of its copy
    #[arg(
        value_name = "DIR, URL",
        num_args = 0..,
        allow_hyphen_values = true,
        trailing_var_arg = true
    )]
    arguments: Vec<OsString>,
}

/// Replaces this process by `hmtt-push`. Returns only if that fails.
pub fn run(arguments: &Arguments) -> Result<bool> {
    scale_program::execute(PROGRAM, &arguments.arguments)
}

/// The definition of the program's arguments, for completions and man pages.
pub fn definition() -> clap::Command {
    options::Arguments::command().name("push")
}
