//! Reads the accesses that other programs have recorded, as text: one access after the other, in the order of the file.
//!
//! ```text
//! file -> lines -> a parser for each format: lackey, drmemtrace, requests, libcachesim, perf -> ImportedAccess
//! ```
//!
//! What a format does not state is absent, and never guessed: [`Contents`] says what it states, and [`ImportedReader::notes`] what
//! else limits results. Invariant: a line that is not understood is an error with its number; time is linear in the file and memory
//! is that of a line.

mod drmemtrace;
mod lackey;
mod libcachesim;
mod perf;
mod requests;

use std::collections::VecDeque;
use std::io::BufRead;

use hmtt_format::{Direction, escape};

use crate::table::TableError;
use crate::table::lines::Lines;
use drmemtrace::Drmemtrace;
use lackey::Lackey;
use libcachesim::LibCacheSim;
use perf::PerfScript;
use requests::Requests;

/// Bytes of a file that [`ImportedFormat::of`] looks at.
pub const BEGIN_BYTES: usize = 4096;
/// Most bytes of a line that an error quotes.
const QUOTED_BYTES: usize = 80;

/// The format of a file that another program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedFormat {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// What the view tool of DynamoRIO's drmemtrace prints.
    Drmemtrace,
    /// Requests for DRAMsim3.
    Dramsim3,
    /// Requests for DRAMSys, with absolute times.
    Dramsys,
    /// Requests for Ramulator: `LoadStoreTrace` of version 2, and memory traces of version 1.
    Ramulator,
    /// A CSV file of libCacheSim.
    LibCacheSim,
    /// `perf script` of what `perf mem record` has sampled.
    Perf,
}

/// What a format states of each access, besides its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// When it was made, in clocks or another unit.
    pub clocks: bool,
    /// The unit of times in picoseconds, if it is known.
    pub tck_ps: Option<u32>,
    /// Its bytes.
    pub sizes: bool,
    /// Its thread.
    pub threads: bool,
    /// The address of its instruction.
    pub instructions: bool,
    /// Whether addresses are virtual; otherwise it is not known.
    pub are_virtual: bool,
    /// Whether these are samples, so that most accesses are missing.
    pub are_samples: bool,
}

/// An access that another program has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedAccess {
    /// When it was made; 0 if the format does not state that.
    pub clock: u64,
    /// Number of the thread; 0 if the format does not state it.
    pub thread: u32,
    /// Address of the instruction; 0 if it is not known.
    pub pc: u64,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Its address.
    pub address: u64,
    /// Its bytes; 0 if they are not known.
    pub size: u32,
}

impl ImportedAccess {
    /// An access of which nothing else is known.
    const fn new(direction: Direction, address: u64) -> Self {
        ImportedAccess { clock: 0, thread: 0, pc: 0, direction, address, size: 0 }
    }
}

impl ImportedFormat {
    const ALL: [ImportedFormat; 7] = [
        ImportedFormat::Lackey,
        ImportedFormat::Dramsim3,
        ImportedFormat::Dramsys,
        ImportedFormat::Ramulator,
        ImportedFormat::Drmemtrace,
        ImportedFormat::LibCacheSim,
        ImportedFormat::Perf,
    ];

    /// The format of a file that begins with these bytes, if it is one of these. A CSV file of libCacheSim has a heading.
    pub fn of(begin: &[u8]) -> Option<ImportedFormat> {
        let valid = begin.utf8_chunks().next()?.valid();
        if valid.len() + 4 < begin.len() {
            return None;
        }
        let is_whole = begin.len() < BEGIN_BYTES;
        let end = if is_whole { valid.len() } else { valid.rfind('\n')? };
        let lines = || valid[..end].lines().filter(|line| !line.trim().is_empty());
        Self::ALL.into_iter().find(|format| {
            let (mut parser, mut found) = (Parser::new(*format), VecDeque::new());
            let has_heading = *format != ImportedFormat::LibCacheSim
                || lines().next().is_some_and(libcachesim::is_heading);
            let is_record = |line: &str| parser.line(line, &mut found) == Ok(LineKind::Record);
            // Messages and comments alone say nothing.
            let mut has_record = has_heading && *format == ImportedFormat::LibCacheSim;
            has_record |= lines().any(is_record);
            let mut parser = Parser::new(*format);
            has_heading && has_record && lines().all(|line| parser.line(line, &mut found).is_ok())
        })
    }

    /// What it is, for people.
    pub const fn name(self) -> &'static str {
        match self {
            ImportedFormat::Lackey => "lackey trace",
            ImportedFormat::Drmemtrace => "drmemtrace view",
            ImportedFormat::Dramsim3 => "DRAMsim3 trace",
            ImportedFormat::Dramsys => "DRAMSys trace",
            ImportedFormat::Ramulator => "Ramulator trace",
            ImportedFormat::LibCacheSim => "libCacheSim trace",
            ImportedFormat::Perf => "perf samples",
        }
    }

    /// What it states of each access.
    pub const fn contents(self) -> Contents {
        let none = Contents {
            clocks: false,
            tck_ps: None,
            sizes: false,
            threads: false,
            instructions: false,
            are_virtual: false,
            are_samples: false,
        };
        match self {
            ImportedFormat::Lackey => {
                Contents { sizes: true, instructions: true, are_virtual: true, ..none }
            }
            ImportedFormat::Drmemtrace => Contents {
                sizes: true,
                threads: true,
                instructions: true,
                are_virtual: true,
                ..none
            },
            ImportedFormat::Dramsim3 | ImportedFormat::Dramsys | ImportedFormat::LibCacheSim => {
                Contents { clocks: true, ..none }
            }
            ImportedFormat::Ramulator => none,
            ImportedFormat::Perf => Contents {
                clocks: true,
                tck_ps: Some(1000),
                threads: true,
                instructions: true,
                are_virtual: true,
                are_samples: true,
                ..none
            },
        }
    }
}

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    /// A record of the format.
    Record,
    /// A heading, comment or message.
    Other,
}

/// What parsing a line has returned: the problem, if it was not understood.
type Parsed = Result<LineKind, String>;

/// The parser of a format.
enum Parser {
    Lackey(Lackey),
    Drmemtrace(Drmemtrace),
    Requests(Requests),
    LibCacheSim(LibCacheSim),
    Perf(PerfScript),
}

impl Parser {
    fn new(format: ImportedFormat) -> Self {
        match format {
            ImportedFormat::Lackey => Parser::Lackey(Lackey::default()),
            ImportedFormat::Drmemtrace => Parser::Drmemtrace(Drmemtrace::default()),
            ImportedFormat::Dramsim3 => Parser::Requests(Requests::Dramsim3),
            ImportedFormat::Dramsys => Parser::Requests(Requests::Dramsys),
            ImportedFormat::Ramulator => Parser::Requests(Requests::Ramulator),
            ImportedFormat::LibCacheSim => Parser::LibCacheSim(LibCacheSim::default()),
            ImportedFormat::Perf => Parser::Perf(PerfScript::default()),
        }
    }

    fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        match self {
            Parser::Lackey(parser) => parser.line(line, add),
            Parser::Drmemtrace(parser) => parser.line(line, add),
            Parser::Requests(parser) => parser.line(line, add),
            Parser::LibCacheSim(parser) => parser.line(line, add),
            Parser::Perf(parser) => parser.line(line, add),
        }
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Parser::Lackey(_) => vec![lackey::NOTE.to_owned()],
            Parser::Drmemtrace(parser) => parser.notes(),
            Parser::Requests(_) => Vec::new(),
            Parser::LibCacheSim(parser) => parser.notes(),
            Parser::Perf(parser) => parser.notes(),
        }
    }
}

/// Says what was expected in place of a line.
fn wrong(expected: &str, line: &str) -> String {
    let end = (0..=QUOTED_BYTES.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
    let quoted = &line[..end.unwrap_or(0)];
    let more = if quoted.len() < line.len() { "..." } else { "" };
    format!("expected {expected}, got `{}{more}`", escape::message(quoted))
}

/// A hexadecimal number, with `0x` or without.
fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(digits, 16).ok())?
}

/// A decimal number.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Reads the accesses of a file.
///
/// ```
/// # fn main() -> Result<(), hmtt::table::TableError> {
/// use hmtt::imported::{ImportedFormat, ImportedReader};
///
/// let text = "I  00401000,3\n S 1ffefffe50,8\n";
/// assert_eq!(ImportedFormat::of(text.as_bytes()), Some(ImportedFormat::Lackey));
/// let mut reader = ImportedReader::new(ImportedFormat::Lackey, text.as_bytes());
/// let access = reader.next_access()?.expect("there is an access");
/// assert_eq!((access.address, access.size, access.pc), (0x1f_feff_fe50, 8, 0x40_1000));
/// assert_eq!(reader.next_access()?, None);
/// # Ok(())
/// # }
/// ```
pub struct ImportedReader<R> {
    lines: Lines<R>,
    parser: Parser,
    waiting: VecDeque<ImportedAccess>,
}

impl<R: BufRead> ImportedReader<R> {
    /// Starts to read.
    pub fn new(format: ImportedFormat, input: R) -> Self {
        let (lines, parser) = (Lines::new(input), Parser::new(format));
        ImportedReader { lines, parser, waiting: VecDeque::new() }
    }

    /// The next access; `None` at the end. After an error nothing more can be read.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, or a line is not understood.
    pub fn next_access(&mut self) -> Result<Option<ImportedAccess>, TableError> {
        loop {
            if let Some(access) = self.waiting.pop_front() {
                return Ok(Some(access));
            }
            if !self.lines.advance()? {
                return Ok(None);
            }
            let line = str::from_utf8(self.lines.line());
            let line = line.map_err(|_| self.lines.error("is not text in UTF-8"))?;
            let parsed = self.parser.line(line, &mut self.waiting);
            parsed.map_err(|problem| self.lines.error(problem))?;
        }
    }

    /// What limits results, for people, as far as it is known up to here.
    pub fn notes(&self) -> Vec<String> {
        self.parser.notes()
    }
}

#[cfg(test)]
mod tests;
