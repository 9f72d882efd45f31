//! Parses the output of the view tool of DynamoRIO's drmemtrace.
//!
//! A record of a read is `RECORD INSTRUCTION: THREAD read SIZE byte(s) @ 0xADDRESS by PC 0xPC`. A
//! write has `write` instead, and a fetched instruction has `ifetch`. Markers are in angle
//! brackets. All lines from `View tool results:` on are a summary.

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::{LineKind, Parsed, decimal, hexadecimal, wrong};

const EXPECTED: &str = "`RECORD INSTRUCTION: THREAD read|write SIZE byte(s) @ 0xADDRESS by PC 0xPC`, or another record of the view tool";
/// Sentence on the order of records of different threads.
const ORDER: &str = "threads follow each other as drmemtrace has scheduled them: the order of accesses of different threads is known \
     to its time stamps only";
/// Maximum number of words of a line that are parsed.
const MOST_WORDS: usize = 9;
/// Begin of the summary.
const RESULTS: &str = "View tool results:";

/// Parses the lines of a trace, and counts the records that are not accesses.
#[derive(Default)]
pub struct Drmemtrace {
    /// Whether the summary has been reached.
    is_over: bool,
    /// Thread of the last record.
    thread: Option<u32>,
    /// Whether there were records of different threads.
    has_threads: bool,
    /// Number of records that are no reads, writes, fetches or markers.
    others: u64,
}

/// Parses the number of a thread: `2765542`, or `W0.T2765542`.
fn thread(text: &str) -> Option<u32> {
    let digits = text.rsplit_once('T').map_or(text, |(_, digits)| digits);
    u32::try_from(decimal(digits)?).ok()
}

/// Parses a read or write. `words`: the words after `read` or `write`.
fn access(direction: Direction, words: &[&str]) -> Option<ImportedAccess> {
    let [size, "byte(s)", "@", address, rest @ ..] = words else { return None };
    let pc = match rest {
        ["by", "PC", pc, ..] => hexadecimal(pc)?,
        _ => 0,
    };
    let (size, address) = (u32::try_from(decimal(size)?).ok()?, hexadecimal(address)?);
    Some(ImportedAccess { pc, size, ..ImportedAccess::new(direction, address) })
}

impl Drmemtrace {
    /// Parses a line, and adds its access to `add` if it is a read or write.
    pub fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        self.is_over |= line.starts_with(RESULTS);
        let is_heading =
            ["Output format:", "<--record#", "---"].iter().any(|begin| line.starts_with(begin));
        if self.is_over || is_heading {
            return Ok(LineKind::Other);
        }
        let record = line.split_once(": ").and_then(|(numbers, record)| {
            numbers.split_whitespace().all(|number| decimal(number).is_some()).then_some(record)
        });
        let words: Vec<&str> =
            record.unwrap_or_default().split_whitespace().take(MOST_WORDS).collect();
        let [thread_word, kind, rest @ ..] = &words[..] else { return Err(wrong(EXPECTED, line)) };
        let number = thread(thread_word).ok_or_else(|| wrong(EXPECTED, line))?;
        self.has_threads |= self.thread.replace(number).is_some_and(|last| last != number);
        let direction = match *kind {
            "read" => Direction::Read,
            "write" => Direction::Write,
            "ifetch" => return Ok(LineKind::Record),
            other => {
                self.others += u64::from(!other.starts_with('<'));
                return Ok(LineKind::Record);
            }
        };
        let access = access(direction, rest).ok_or_else(|| wrong(EXPECTED, line))?;
        add.push_back(ImportedAccess { thread: number, ..access });
        Ok(LineKind::Record)
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        let others =
            format!("{} records are no reads or writes (prefetches and others)", self.others);
        let notes = [(self.has_threads, ORDER.to_owned()), (self.others > 0, others)];
        notes.into_iter().filter_map(|(is_so, note)| is_so.then_some(note)).collect()
    }
}
