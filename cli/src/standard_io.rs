//! Handles `-` on the command line, which stands for standard input or output.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// The path that stands for standard input, or output.
const STANDARD: &str = "-";

/// Whether a path stands for standard input, or output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new(STANDARD)
}

/// Standard input as a file, without a buffer.
pub fn input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// The printable name of an input.
pub fn name_of_input(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { path.display().to_string() }
}
