//! Handles standard input and output, which `-` selects on the command line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result};

/// The path that stands for standard input, or output.
pub const STANDARD: &str = "-";

/// Whether a path stands for standard input, or output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new(STANDARD)
}

/// Opens standard input as a file, without a buffer.
pub fn input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// The printable name of an input.
pub fn name_of_input(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { path.display().to_string() }
}

/// Writes to standard output through a buffer.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    let written = write(&mut output).and_then(|()| output.flush());
    written.context("cannot write to standard output")
}
