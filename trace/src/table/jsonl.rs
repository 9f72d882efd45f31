//! Writes and reads rows as JSON objects, one per line, the form of `hmtt decode --format jsonl`.
//!
//! This format represents every row completely. Formats without columns for the rarer kinds store
//! the same objects (see `json_object`).

use std::io::{BufRead, Write};

use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr};

use super::access_line::AccessLine;
use super::card_changes::{CardChange, CardChanges};
use super::json_object::{CardObject, Object, card_object, object, parse_object};
use super::lines::Lines;
use super::notation::{Notation, NotationWriter};
use super::{Entry, Reader, Row, TableError};
use crate::identity::CardId;

/// The notation of rows as JSON lines. Addresses are hexadecimal strings, because JSON numbers lose
/// bits above 2^53.
pub struct JsonlNotation;

/// A writer of JSON lines.
pub type JsonlWriter<W> = NotationWriter<W, JsonlNotation>;

impl Notation for JsonlNotation {
    const HEADING: &'static str = "";
    const ACCESS: AccessLine = AccessLine {
        before_clock: r#"{"kind":"access","clock":"#,
        before_direction: r#","direction":""#,
        before_address: r#"","address":"0x"#,
        end: "\"}\n",
    };

    fn card_change(change: &CardChange<'_>, output: &mut impl Write) -> Result<(), TableError> {
        let interface = change.interface.map(str::to_owned);
        Ok(writeln!(output, "{}", card_object(CardObject { card: change.number, interface }))?)
    }

    fn entry(entry: &Entry, output: &mut impl Write) -> Result<(), TableError> {
        match entry {
            Entry::Event(Event::Access(access)) => Self::ACCESS.write(*access, output)?,
            entry => writeln!(output, "{}", object(entry))?,
        }
        Ok(())
    }
}

/// A reader of JSON lines. Unknown members are ignored.
pub struct JsonlReader<R> {
    lines: Lines<R>,
    cards: CardChanges,
}

impl<R: BufRead> JsonlReader<R> {
    /// Creates a reader of `input`.
    pub fn new(input: R) -> Self {
        JsonlReader { lines: Lines::new(input), cards: CardChanges::default() }
    }
}

impl<R: BufRead> Reader for JsonlReader<R> {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        while self.lines.advance()? {
            let entry = match written_access(self.lines.line()) {
                Some(access) => Ok(Some(access.into())),
                None => row(self.lines.line(), &mut self.cards),
            };
            if let Some(entry) = entry.map_err(|problem| self.lines.error(problem))? {
                return Ok(Some(Row { card: self.cards.card(), entry }));
            }
        }
        Ok(None)
    }

    fn interface(&self, card: CardId) -> Option<&str> {
        self.cards.interface_of(card)
    }
}

/// Parses a line; `None` if it names the card of the rows that follow.
fn row(line: &[u8], cards: &mut CardChanges) -> Result<Option<Entry>, String> {
    match parse_object(line)? {
        Object::Entry(entry) => Ok(Some(entry)),
        Object::Card(CardObject { card, interface }) => {
            cards.apply(card, interface.as_deref()).map(|()| None)
        }
    }
}

/// Parses an access in exactly the form in which [`JsonlNotation::ACCESS`](Notation::ACCESS) writes
/// it, without the slower general parser. `None` for a line of another form.
fn written_access(line: &[u8]) -> Option<Access> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix(JsonlNotation::ACCESS.before_clock)?;
    let (clock, line) = line.split_once(JsonlNotation::ACCESS.before_direction)?;
    let (letter, line) = line.split_once(JsonlNotation::ACCESS.before_address)?;
    let address = line.strip_suffix(JsonlNotation::ACCESS.end.trim_end())?;
    let clock = clock.parse().ok().filter(|_| !clock.starts_with('+'))?;
    let mut letters = letter.chars();
    let direction = Direction::from_letter(letters.next()?).filter(|_| letters.next().is_none())?;
    Some(Access { clock: Cycles(clock), direction, address: PhysAddr::from_hex(address)? })
}
