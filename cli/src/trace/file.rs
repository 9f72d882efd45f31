//! Opens traces of accesses.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, Result};
use hmtt::access_trace::{Ending, Visitor, visit};
use hmtt_format::access_trace::{Function, MAGIC};
use hmtt_format::escape;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The file at a path, if it is a trace of accesses.
pub fn open(path: &Path) -> Option<File> {
    let mut file =
        File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    let mut begin = [0; MAGIC.len()];
    file.read_exact(&mut begin).ok()?;
    file.rewind().ok()?;
    (begin == MAGIC).then_some(file)
}

/// Reads a trace to its end. `path`: that of the file, for messages.
///
/// # Errors
/// The trace is damaged or cannot be read.
pub fn read_to_end(file: File, path: &Path, visitor: impl Visitor) -> Result<Ending> {
    let input = BufReader::with_capacity(BUFFER_BYTES, file);
    visit(input, visitor).with_context(|| path.display().to_string())
}

/// The name of a function for people: that of its file in brackets if it has none, and nothing if that is not known either.
pub fn shown(function: Option<&Function>) -> Option<String> {
    let function = function?;
    let (name, file) = (escape::message(&function.name), escape::message(function.file_name()));
    if !function.name.is_empty() {
        return Some(name.to_string());
    }
    (!function.path.is_empty()).then(|| format!("[{file}]"))
}
