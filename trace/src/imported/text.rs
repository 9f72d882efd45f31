//! Reads text formats, in which each line is a record.
//!
//! Invariant: a line that is not understood is an error with its line number. Only one line is in
//! memory.

mod drmemtrace;
mod lackey;
mod libcachesim;
mod perf;
mod requests;
mod simple_o3;

use std::collections::VecDeque;
use std::io::BufRead;

use hmtt_format::escape;

use super::{BEGIN_BYTES, ImportedAccess, ImportedFormat};
use crate::table::TableError;
use crate::table::lines::Lines;
use drmemtrace::Drmemtrace;
use lackey::Lackey;
use libcachesim::LibCacheSim;
use perf::PerfScript;
use requests::Requests;
use simple_o3::SimpleO3;

/// Maximum number of bytes of a line that an error quotes.
const QUOTED_BYTES: usize = 80;

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A record of the format.
    Record,
    /// A heading, a comment or a message.
    Other,
}

/// Result of parsing a line. The error is a text that says what was expected.
pub type Parsed = Result<LineKind, String>;

/// The parser for the lines of a format.
pub enum Parser {
    Lackey(Lackey),
    Drmemtrace(Drmemtrace),
    Requests(Requests),
    SimpleO3(SimpleO3),
    LibCacheSim(LibCacheSim),
    Perf(PerfScript),
}

impl Parser {
    /// Creates the parser of a format; `None` if the format is not text.
    pub fn new(format: ImportedFormat) -> Option<Self> {
        Some(match format {
            ImportedFormat::Lackey => Parser::Lackey(Lackey::default()),
            ImportedFormat::Drmemtrace => Parser::Drmemtrace(Drmemtrace::default()),
            ImportedFormat::Dramsim3 => Parser::Requests(Requests::Dramsim3),
            ImportedFormat::Dramsys => Parser::Requests(Requests::Dramsys),
            ImportedFormat::Ramulator => Parser::Requests(Requests::Ramulator),
            ImportedFormat::RamulatorInstructions => Parser::SimpleO3(SimpleO3::default()),
            ImportedFormat::LibCacheSim => Parser::LibCacheSim(LibCacheSim::default()),
            ImportedFormat::Perf => Parser::Perf(PerfScript::default()),
            ImportedFormat::ChampSim
            | ImportedFormat::OracleGeneral
            | ImportedFormat::Gem5
            | ImportedFormat::PerfData => return None,
        })
    }

    fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        match self {
            Parser::Lackey(parser) => parser.line(line, add),
            Parser::Drmemtrace(parser) => parser.line(line, add),
            Parser::Requests(parser) => parser.line(line, add),
            Parser::SimpleO3(parser) => parser.line(line, add),
            Parser::LibCacheSim(parser) => parser.line(line, add),
            Parser::Perf(parser) => parser.line(line, add),
        }
    }

    /// Adds the access that the parser still holds at the end of the file, because a further line
    /// could have belonged to it.
    fn finish(&mut self, add: &mut VecDeque<ImportedAccess>) {
        if let Parser::Perf(parser) = self {
            parser.finish(add);
        }
    }

    /// Whether the lines read so far can only belong to this format. Assumes that all of them were
    /// understood.
    fn is_certain(&self) -> bool {
        match self {
            Parser::SimpleO3(parser) => parser.has_both_forms(),
            Parser::LibCacheSim(parser) => parser.has_heading(),
            _ => true,
        }
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Parser::Lackey(_) => vec![lackey::NOTE.to_owned()],
            Parser::Drmemtrace(parser) => parser.notes(),
            Parser::Requests(_) => Vec::new(),
            Parser::SimpleO3(parser) => parser.notes(),
            Parser::LibCacheSim(parser) => parser.notes(),
            Parser::Perf(parser) => parser.notes(),
        }
    }
}

/// Recognises a text format by the first bytes of a file; `None` if no format fits.
pub fn format_of(begin: &[u8]) -> Option<ImportedFormat> {
    let valid = begin.utf8_chunks().next()?.valid();
    // The last character may be cut, because only the first bytes of the file are known.
    if valid.len() + 4 < begin.len() {
        return None;
    }
    let is_whole = begin.len() < BEGIN_BYTES;
    let end = if is_whole { valid.len() } else { valid.rfind('\n')? };
    ImportedFormat::ALL.into_iter().find(|format| {
        let Some(mut parser) = Parser::new(*format) else { return false };
        let mut accesses = VecDeque::new();
        // Messages and comments alone do not identify a format.
        let mut has_record = false;
        let mut lines = valid[..end].lines().filter(|line| !line.trim().is_empty());
        let is_understood = lines.all(|line| {
            let parsed = parser.line(line, &mut accesses);
            has_record |= parsed == Ok(LineKind::Record);
            parsed.is_ok()
        });
        let is_heading_alone = *format == ImportedFormat::LibCacheSim;
        is_understood && (has_record || is_heading_alone) && parser.is_certain()
    })
}

/// A message that quotes a line, and says what was expected instead.
fn wrong(expected: &str, line: &str) -> String {
    let end = (0..=QUOTED_BYTES.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
    let quoted = &line[..end.unwrap_or(0)];
    let more = if quoted.len() < line.len() { "..." } else { "" };
    format!("expected {expected}, got `{}{more}`", escape::message(quoted))
}

/// Parses a hexadecimal number, with or without `0x`.
fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Parses a decimal number without a sign.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses a hexadecimal number with `0x`, or a decimal number.
fn number(text: &str) -> Option<u64> {
    if text.starts_with("0x") { hexadecimal(text) } else { decimal(text) }
}

/// Reads a file line by line.
pub struct TextReader<R> {
    lines: Lines<R>,
    parser: Parser,
}

impl<R: BufRead> TextReader<R> {
    pub fn new(parser: Parser, input: R) -> Self {
        TextReader { lines: Lines::new(input), parser }
    }

    /// Reads a line, and adds its accesses to `add`. Returns `false` at the end of the file.
    ///
    /// At the end of the file, also adds the access that the parser still holds.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, or the line is not understood.
    pub fn advance(&mut self, add: &mut VecDeque<ImportedAccess>) -> Result<bool, TableError> {
        if !self.lines.advance()? {
            self.parser.finish(add);
            return Ok(false);
        }
        let line = str::from_utf8(self.lines.line());
        let line = line.map_err(|_| self.lines.error("is not text in UTF-8"))?;
        let parsed = self.parser.line(line, add);
        parsed.map_err(|problem| self.lines.error(problem))?;
        Ok(true)
    }
}

impl<R> TextReader<R> {
    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        self.parser.notes()
    }
}
