//! Rows to JSON objects, one a line, as `hmtt decode --format jsonl` prints them, and back.
//!
//! This form holds every row whole, so [`object`] and [`of_object`] also serve formats that have no
//! columns of their own for the rarer kinds.

mod members;

use std::io::{BufRead, Write};

use hmtt_format::{Access, Cycles};

use super::digits::AccessLine;
use super::lines::Lines;
use super::turns::{Turn, Turns};
use super::{Accesses, Entry, LeftOut, Reader, Row, TableError, Writer};
use members::{Object, direction, hex};
pub(super) use members::{object, of_object};

pub(super) const ACCESS: AccessLine = AccessLine {
    before_clock: r#"{"kind":"access","clock":"#,
    before_direction: r#","direction":""#,
    before_address: r#"","address":""#,
    end: "\"}\n",
};

/// Writes JSON lines. Addresses are hexadecimal strings, because JSON numbers lose bits above 2^53.
pub struct Jsonl<W> {
    output: W,
    turns: Turns,
}

impl<W: Write> Jsonl<W> {
    /// Starts a file.
    pub fn new(output: W) -> Self {
        Jsonl { output, turns: Turns::default() }
    }

    fn turn(&mut self, card: u32) -> Result<(), TableError> {
        if let Some(Turn { number, interface }) = self.turns.turn(card) {
            let turn = Object::Card { card: number, interface: interface.map(str::to_owned) };
            serde_json::to_writer(&mut self.output, &turn).map_err(std::io::Error::from)?;
            self.output.write_all(b"\n")?;
        }
        Ok(())
    }
}

impl<W: Write> Writer for Jsonl<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        self.turn(row.capture)?;
        match &row.entry {
            Entry::Access(access) => ACCESS.write(*access, &mut self.output)?,
            entry => writeln!(self.output, "{}", object(entry))?,
        }
        Ok(())
    }

    fn accesses(&mut self, capture: u32, accesses: Accesses<'_>) -> Result<(), TableError> {
        self.turn(capture)?;
        let output = &mut self.output;
        Ok(accesses.iter().try_for_each(|access| ACCESS.write(access, output))?)
    }

    fn interface(&mut self, capture: u32, name: &str) {
        self.turns.interface(capture, name);
    }

    fn only(&mut self, capture: u32) {
        self.turns.only(capture);
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        Ok(LeftOut::default())
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
    let line = std::str::from_utf8(line).ok()?.strip_prefix(ACCESS.before_clock)?;
    let (clock, line) = line.split_once(ACCESS.before_direction)?;
    let (letter, line) = line.split_once(ACCESS.before_address)?;
    let address = line.strip_suffix(ACCESS.end.trim_end())?;
    let clock = clock.parse().ok().filter(|_| !clock.starts_with('+'))?;
    let mut letters = letter.chars();
    let direction = direction(letters.next()?).ok().filter(|_| letters.next().is_none())?;
    Some(Access { clock: Cycles(clock), direction, address: hex(address).ok()? })
}
