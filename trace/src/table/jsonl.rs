//! Rows to JSON objects, one a line, as `hmtt decode --format jsonl` prints them, and back.
//!
//! This form holds every row whole, and its members (`members`) also serve formats that have no
//! columns of their own for the rarer kinds.

use std::io::{BufRead, Write};

use hmtt_format::{Access, Cycles};

use super::digits::AccessLine;
use super::lines::Lines;
use super::members::{Object, direction, hex, object};
use super::printed::{Notation, Printed};
use super::turns::{Turn, Turns};
use super::{Entry, Reader, Row, TableError};

/// How JSON lines look. Addresses are hexadecimal strings, because JSON numbers lose bits above 2^53.
pub struct JsonlNotation;

/// Writes JSON lines.
pub type Jsonl<W> = Printed<W, JsonlNotation>;

impl Notation for JsonlNotation {
    const HEADING: &'static str = "";
    const ACCESS: AccessLine = AccessLine {
        before_clock: r#"{"kind":"access","clock":"#,
        before_direction: r#","direction":""#,
        before_address: r#"","address":""#,
        end: "\"}\n",
    };

    fn turn(turn: &Turn<'_>, output: &mut impl Write) -> Result<(), TableError> {
        let interface = turn.interface.map(str::to_owned);
        let turn = Object::Card { card: turn.number, interface };
        serde_json::to_writer(&mut *output, &turn).map_err(std::io::Error::from)?;
        Ok(output.write_all(b"\n")?)
    }

    fn entry(entry: &Entry, output: &mut impl Write) -> Result<(), TableError> {
        match entry {
            Entry::Access(access) => Self::ACCESS.write(*access, output)?,
            entry => writeln!(output, "{}", object(entry))?,
        }
        Ok(())
    }
}

/// Reads JSON lines. Members it does not know are ignored.
pub struct JsonlReader<R> {
    lines: Lines<R>,
    turns: Turns,
}

impl<R: BufRead> JsonlReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        JsonlReader { lines: Lines::new(input), turns: Turns::default() }
    }
}

impl<R: BufRead> Reader for JsonlReader<R> {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        while self.lines.advance()? {
            let entry = match written_access(self.lines.line()) {
                Some(access) => Ok(Some(Entry::Access(access))),
                None => row(self.lines.line(), &mut self.turns),
            };
            if let Some(entry) = entry.map_err(|problem| self.lines.error(problem))? {
                return Ok(Some(Row { capture: self.turns.card(), entry }));
            }
        }
        Ok(None)
    }

    fn interface(&self, capture: u32) -> Option<&str> {
        self.turns.interface_of(capture)
    }
}

/// What a line says; none if it says whose rows follow.
fn row(line: &[u8], turns: &mut Turns) -> Result<Option<Entry>, String> {
    match serde_json::from_slice(line).map_err(|error| error.to_string())? {
        Object::Card { card, interface } => turns.go_on(card, interface.as_deref()).map(|()| None),
        object => Entry::try_from(object).map(Some),
    }
}

/// An access in exactly the form in which [`ACCESS`] writes it, which spares the general parser.
fn written_access(line: &[u8]) -> Option<Access> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix(JsonlNotation::ACCESS.before_clock)?;
    let (clock, line) = line.split_once(JsonlNotation::ACCESS.before_direction)?;
    let (letter, line) = line.split_once(JsonlNotation::ACCESS.before_address)?;
    let address = line.strip_suffix(JsonlNotation::ACCESS.end.trim_end())?;
    let clock = clock.parse().ok().filter(|_| !clock.starts_with('+'))?;
    let mut letters = letter.chars();
    let direction = direction(letters.next()?).ok().filter(|_| letters.next().is_none())?;
    Some(Access { clock: Cycles(clock), direction, address: hex(address).ok()? })
}
