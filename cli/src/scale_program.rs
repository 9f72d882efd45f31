//! Executes a program of the workspace `scale/`. Its programs are built separately, because their
//! query engine is large.

use std::ffi::OsString;
use std::fmt;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Result, anyhow};

/// A program of the workspace `scale/`.
#[derive(Clone, Copy)]
pub struct Program {
    /// File name of the program.
    pub name: &'static str,
    /// Package that contains the program.
    pub package: &'static str,
}

/// Error: a program has failed and has printed the reason itself. Has the program's exit status.
#[derive(Debug)]
pub struct Printed(pub u8);

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another program has failed with exit status {}", self.0)
    }
}

impl std::error::Error for Printed {}

/// Replaces this process by a program, which is looked for beside this program and then in `PATH`.
/// Returns only if that fails.
pub fn execute(program: Program, arguments: &[OsString]) -> Result<bool> {
    let error = command(program).args(arguments).exec();
    Err(failed(program, error))
}

/// Makes a command that executes a program, which is looked for beside this program and then in
/// `PATH`.
pub fn command(program: Program) -> Command {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(program.name));
    let beside = beside.filter(|path| path.is_file());
    Command::new(beside.unwrap_or_else(|| program.name.into()))
}

/// Explains why a program cannot be executed, and how to get it.
pub fn failed(program: Program, error: Error) -> anyhow::Error {
    let Program { name, package } = program;
    if error.kind() == ErrorKind::NotFound {
        return anyhow!(
            "{name} is neither beside hmtt nor in PATH; build it with `cargo build --release --manifest-path \
             scale/Cargo.toml -p {package}` and copy scale/target/release/{name} there"
        );
    }
    anyhow::Error::from(error).context(format!("cannot execute {name}"))
}
