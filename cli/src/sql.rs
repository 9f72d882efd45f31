//! `hmtt sql`: executes `hmtt-sql`, which is built apart because its query engine is large.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The program.
const PROGRAM: &str = "hmtt-sql";

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
    let (program, error) = execute(&arguments.arguments);
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "{PROGRAM} is neither beside hmtt nor in PATH; build it with `cargo build --release --manifest-path \
             scale/Cargo.toml` and copy scale/target/release/{PROGRAM} there"
        );
    }
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

/// Replaces this process. Returns only if that fails, with what could not be executed.
fn execute(arguments: &[OsString]) -> (PathBuf, Error) {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    if let Some(program) = beside.filter(|program| program.is_file()) {
        let error = Command::new(&program).args(arguments).exec();
        return (program, error);
    }
    (PROGRAM.into(), Command::new(PROGRAM).args(arguments).exec())
}
