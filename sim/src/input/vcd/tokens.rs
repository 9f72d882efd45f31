//! Splits a VCD into tokens, which any white space separates, and knows the line of each.
//!
//! Comments are skipped wherever a token may be. Skipped text is not kept, so its length is not
//! limited. All other tokens have a limited length, because a small compressed file may contain a
//! token of many gigabytes.

use std::borrow::Cow;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use hmtt_format::escape;

use crate::input::InputError;
use crate::input::lines::Reader;

/// Maximum length of a token, or of a declaration that is kept, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The word that ends comments and declarations.
const END: &[u8] = b"$end";
/// Longest part of a token in a message, in bytes.
const SHOWN: usize = 60;
/// U+FEFF in UTF-8, which some programs write at the start of text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes of a file without a byte-order mark at their start.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

/// Whether a byte separates tokens: white space, and other control characters, such as the
/// end-of-file mark of DOS.
pub const fn is_space(byte: u8) -> bool {
    byte <= b' '
}

/// The start of a token or a value, for a message.
pub fn start(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)])
}

/// Which bytes of a token are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    /// The last bytes, which show whether the token is `$end`.
    End,
}

/// Reads tokens.
pub struct Tokens {
    path: PathBuf,
    reader: Reader,
    token: Vec<u8>,
    /// Line of the token that was read last, from 1.
    line: u64,
    /// Line of the next byte.
    next_line: u64,
}

impl Tokens {
    /// Creates a reader of tokens. `path` is used in messages.
    pub fn new(path: &Path, mut reader: Reader) -> Result<Self, InputError> {
        let read = |source| InputError::Read { path: path.into(), line: 1, source };
        let start = reader.fill_buf().map_err(read)?;
        let mark = start.len() - without_mark(start).len();
        reader.consume(mark);
        Ok(Tokens { path: path.into(), reader, token: Vec::new(), line: 1, next_line: 1 })
    }

    /// The token that was read last.
    pub fn token(&self) -> &[u8] {
        &self.token
    }

    /// The line of the token that was read last, from 1.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Creates an error at the token that was read last.
    pub fn fail(&self, reason: impl Into<String>) -> InputError {
        self.fail_at(self.line, reason)
    }

    /// Creates an error at a line.
    pub fn fail_at(&self, line: u64, reason: impl Into<String>) -> InputError {
        InputError::Vcd { path: self.path.clone(), line, reason: reason.into() }
    }

    /// Creates an error about the token that was read last.
    pub fn unexpected(&self, expected: &str) -> InputError {
        self.malformed_at(self.line, expected, &start(&self.token))
    }

    /// The start of the last token, for a message.
    fn shown(&self) -> String {
        escape::message(&start(&self.token)).to_string()
    }

    /// Creates an error about a text at a line.
    pub fn malformed_at(&self, line: u64, expected: &str, got: &str) -> InputError {
        InputError::malformed(&self.path, line, expected, got)
    }

    /// Reads the next token outside of comments. Returns `false` at the end of the file.
    pub fn advance(&mut self) -> Result<bool, InputError> {
        while self.read(Kept::All)? {
            if self.token != b"$comment" {
                return Ok(true);
            }
            self.skip_text()?;
        }
        Ok(false)
    }

    /// Reads a token that must follow. `command`: the command that it belongs to, for the message.
    pub fn operand(&mut self, command: &str) -> Result<&[u8], InputError> {
        let line = self.line;
        if self.advance()? {
            Ok(&self.token)
        } else {
            Err(self.fail_at(line, format!("the file ends within {command}")))
        }
    }

    /// Skips the text after a keyword, which is the last token, up to `$end`. The last word of the
    /// text may adjoin it.
    pub fn skip_text(&mut self) -> Result<(), InputError> {
        let (line, keyword) = (self.line, self.shown());
        while self.read(Kept::End)? {
            if self.token.ends_with(END) {
                return Ok(());
            }
        }
        Err(self.fail_at(line, format!("the file ends within {keyword}")))
    }

    /// Reads a declaration after its keyword up to `$end`: its words, separated by single spaces.
    pub fn declaration(&mut self, keyword: &str) -> Result<String, InputError> {
        let mut words = Vec::new();
        while self.operand(keyword)? != END {
            if words.len() + self.token.len() >= MAX_BYTES {
                return Err(self.too_long());
            }
            if !words.is_empty() {
                words.push(b' ');
            }
            words.extend_from_slice(&self.token);
        }
        let text = String::from_utf8_lossy(&words);
        Ok(text.into_owned())
    }

    fn too_long(&self) -> InputError {
        self.fail(format!("a command is longer than {MAX_BYTES} bytes"))
    }

    /// Reads a token. Returns `false` at the end of the file.
    fn read(&mut self, kept: Kept) -> Result<bool, InputError> {
        self.token.clear();
        loop {
            let bytes = match self.reader.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    let (path, line) = (self.path.clone(), self.next_line);
                    return Err(InputError::Read { path, line, source });
                }
            };
            if bytes.is_empty() {
                return Ok(!self.token.is_empty());
            }
            let mut begin = 0;
            if self.token.is_empty() {
                let first = bytes.iter().position(|byte| !is_space(*byte));
                begin = first.unwrap_or(bytes.len());
                let spaces = &bytes[..begin];
                self.next_line += spaces.iter().filter(|byte| **byte == b'\n').count() as u64;
                self.line = self.next_line;
            }
            let rest = &bytes[begin..];
            let length = rest.iter().position(|byte| is_space(*byte));
            let part = &rest[..length.unwrap_or(rest.len())];
            self.token.extend_from_slice(part);
            let used = begin + part.len();
            self.reader.consume(used);
            match kept {
                Kept::All if self.token.len() > MAX_BYTES => return Err(self.too_long()),
                Kept::All => {}
                Kept::End => drop(self.token.drain(..self.token.len().saturating_sub(END.len()))),
            }
            if length.is_some() && !self.token.is_empty() {
                return Ok(true);
            }
        }
    }
}
