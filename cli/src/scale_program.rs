//! Executes a program of the workspace `scale/`, which is built apart because its query engine is large.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A program of the workspace.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The package that has it.
    pub package: &'static str,
}

/// Replaces this process by a program, beside this one or in `PATH`. Returns only with an error.
pub fn execute(program: Program, arguments: &[OsString]) -> Result<bool> {
    let Program { name, package } = program;
    let (program, error) = replace(name, arguments);
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "{name} is neither beside hmtt nor in PATH; build it with `cargo build --release --manifest-path \
             scale/Cargo.toml -p {package}` and copy scale/target/release/{name} there"
        );
    }
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

/// Replaces this process. Returns only if that fails, with what could not be executed.
fn replace(name: &str, arguments: &[OsString]) -> (PathBuf, Error) {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    if let Some(program) = beside.filter(|program| program.is_file()) {
        let error = Command::new(&program).args(arguments).exec();
        return (program, error);
    }
    (name.into(), Command::new(name).args(arguments).exec())
}
