//! Rows to JSON objects, one a line, as `hmtt decode --format jsonl` prints them, and back.
//!
//! This form holds every row whole, so [`object`] and [`of_object`] also serve formats that have no
//! columns of their own for the rarer kinds.

mod members;

use std::io::{BufRead, Write};

use hmtt_format::{Access, Cycles};
use serde::{Deserialize, Serialize};

use super::lines::Lines;
use super::{Entry, LeftOut, Reader, Row, TableError, Writer};
use crate::report::digits::AccessLine;
use members::{Object, direction, hex};
pub(super) use members::{object, of_object};

const ACCESS: AccessLine = AccessLine {
    before_clock: r#"{"kind":"access","clock":"#,
    before_direction: r#","direction":""#,
    before_address: r#"","address":""#,
    end: "\"}\n",
};

/// An object and the capture it is of.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    object: Object,
    #[serde(default, skip_serializing_if = "is_first")]
    capture: u32,
}

fn is_first(capture: &u32) -> bool {
    *capture == 0
}

/// Writes JSON lines.
pub struct Jsonl<W> {
    output: W,
}

impl<W: Write> Jsonl<W> {
    /// Starts a file.
    pub fn new(output: W) -> Self {
        Jsonl { output }
    }
}

impl<W: Write> Writer for Jsonl<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        match (&row.entry, row.capture) {
            (Entry::Access(access), 0) => ACCESS.write(*access, &mut self.output)?,
            (entry, 0) => writeln!(self.output, "{}", object(entry))?,
            (entry, capture) => {
                let line = Line { object: entry.into(), capture };
                serde_json::to_writer(&mut self.output, &line).map_err(std::io::Error::from)?;
                self.output.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        Ok(LeftOut::default())
    }
}

/// Reads JSON lines. Members it does not know are ignored.
pub struct JsonlReader<R> {
    lines: Lines<R>,
}

impl<R: BufRead> JsonlReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        JsonlReader { lines: Lines::new(input) }
    }
}

impl<R: BufRead> Reader for JsonlReader<R> {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        if let Some(access) = written_access(self.lines.line()) {
            return Ok(Some(Row { capture: 0, entry: Entry::Access(access) }));
        }
        let line = serde_json::from_slice::<Line>(self.lines.line());
        let row = line
            .map_err(|error| error.to_string())
            .and_then(|Line { object, capture }| Ok(Row { capture, entry: object.try_into()? }));
        row.map(Some).map_err(|problem| self.lines.error(problem))
    }
}

/// An access in exactly the form in which [`ACCESS`] writes it, which spares the general parser.
fn written_access(line: &[u8]) -> Option<Access> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix(ACCESS.before_clock)?;
    let (clock, line) = line.split_once(ACCESS.before_direction)?;
    let (letter, line) = line.split_once(ACCESS.before_address)?;
    let address = line.strip_suffix(ACCESS.end.trim_end())?;
    let clock = clock.parse().ok().filter(|_| !clock.starts_with('+'))?;
    let mut letters = letter.chars();
    let direction = direction(letters.next()?).ok().filter(|_| letters.next().is_none())?;
    Some(Access { clock: Cycles(clock), direction, address: hex(address).ok()? })
}
