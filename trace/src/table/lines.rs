//! Splits a file into numbered lines, without their line ends.

use std::io::BufRead;

use super::TableError;

/// Longest accepted line, in bytes. No line of a trace is longer.
const MAX_LINE_BYTES: usize = 1 << 16;

/// A reader of lines that skips blank lines.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Self {
        Lines { input, buffer: Vec::new(), number: 0 }
    }

    /// Advances to the next line that is not blank. Returns false at the end.
    pub fn advance(&mut self) -> Result<bool, TableError> {
        loop {
            self.buffer.clear();
            self.number += 1;
            let mut limited = std::io::Read::take(&mut self.input, MAX_LINE_BYTES as u64);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(false);
            }
            if self.buffer.len() == MAX_LINE_BYTES {
                return Err(self.error(format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            let end = self.buffer.trim_ascii_end().len();
            self.buffer.truncate(end);
            if end != 0 {
                return Ok(true);
            }
        }
    }

    /// The current line, without white space at its end.
    pub fn line(&self) -> &[u8] {
        &self.buffer
    }

    /// An error about the current line, with its number.
    pub fn error(&self, problem: impl Into<String>) -> TableError {
        TableError::Line { line: self.number, problem: problem.into() }
    }
}
