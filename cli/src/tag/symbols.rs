//! `hmtt tag symbols`: writes a file with the names and unwind information of a tagged process's
//! stubs, for a debugger.

use std::path::PathBuf;

use anyhow::{Context, Result};
use hmtt_probe::control::symbol_file;
use nix::unistd::Pid;

use super::files::Created;

/// Write the stubs of a tagged process to an ELF file, for gdb's add-symbol-file
#[derive(clap::Args)]
pub struct Symbols {
    /// Process id
    #[arg(value_name = "PID")]
    pid: i32,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    overwrite: bool,
}

pub fn run(Symbols { pid, output, overwrite }: &Symbols) -> Result<()> {
    let file = symbol_file(Pid::from_raw(*pid))?;
    let file = file.with_context(|| format!("process {pid} has no tags"))?;
    Ok(Created::new(output, *overwrite)?.write(&file)?)
}
