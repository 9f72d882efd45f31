//! Reads rows from comma-separated values.

use std::io::BufRead;

use hmtt_format::event::{MarkRegister, SliceLength, is_at_tag_offset};
use hmtt_format::{Access, Cycles, Direction, Event, FaultKind, PhysAddr, escape};

use super::detail;
use super::fields::{Column, Fields, Heading};
use super::records::Records;
use crate::identity::CardId;
use crate::table::card_changes::CardChanges;
use crate::table::{Entry, Reader, Row, TableError};

/// A reader of CSV. The heading names the columns, in any order. `clock`, `direction` and `address`
/// are required. Without a column `kind`, every line is an access. Quoted fields may span several
/// lines.
pub struct CsvReader<R> {
    records: Records<R>,
    heading: Heading,
    /// A row that was read ahead to check whether it is the access of a tag.
    held: Option<Row>,
    cards: CardChanges,
}

impl<R: BufRead> CsvReader<R> {
    /// Starts to read a table with its heading.
    ///
    /// # Errors
    /// [`TableError`]: the input cannot be read, is empty, or its heading lacks a required column.
    pub fn new(input: R) -> Result<Self, TableError> {
        let mut records = Records::new(input);
        let Some(first) = records.advance()? else {
            return Err(TableError::Schema("empty: a CSV file starts with a heading".into()));
        };
        let heading = Heading::parse(first).map_err(|problem| records.error(problem))?;
        Ok(CsvReader { records, heading, held: None, cards: CardChanges::default() })
    }

    /// Reads the next line that is a row.
    fn next_line(&mut self) -> Result<Option<Row>, TableError> {
        while let Some(record) = self.records.advance()? {
            let fields = self.heading.fields(record);
            let entry = fields.and_then(|fields| row(&self.heading, &fields, &mut self.cards));
            if let Some(entry) = entry.map_err(|problem| self.records.error(problem))? {
                return Ok(Some(Row { card: self.cards.card(), entry }));
            }
        }
        Ok(None)
    }
}

impl<R: BufRead> Reader for CsvReader<R> {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        let row = match self.held.take() {
            Some(row) => Some(row),
            None => self.next_line()?,
        };
        let Some(Row { card, entry: Entry::Event(tag @ Event::Tag { .. }) }) = row else {
            return Ok(row);
        };
        let next = self.next_line()?;
        match next.filter(|next| next.card == card).and_then(|next| joined(tag, next.entry)) {
            Some(event) => Ok(Some(Row { card, entry: Entry::Event(event) })),
            None => {
                self.held = next;
                Ok(row)
            }
        }
    }

    fn interface(&self, card: CardId) -> Option<&str> {
        self.cards.interface_of(card)
    }
}

/// The tag with the address of its access, if the row after the tag is this access; `None`
/// otherwise.
fn joined(tag: Event, next: Entry) -> Option<Event> {
    let Event::Tag { clock, direction, offset, address: None } = tag else { return None };
    let Entry::Event(Event::Access(access)) = next else { return None };
    let same = (access.clock, access.direction) == (clock, direction)
        && is_at_tag_offset(access.address, offset);
    same.then_some(Event::Tag { clock, direction, offset, address: Some(access.address) })
}

/// Parses a line; `None` if it names the card of the rows that follow.
fn row(
    heading: &Heading,
    fields: &Fields<'_>,
    cards: &mut CardChanges,
) -> Result<Option<Entry>, String> {
    let kind = if heading.has(Column::Kind) { fields.get(Column::Kind) } else { "access" };
    if kind != "card" {
        return entry(kind, fields).map(Some);
    }
    let detail = fields.get(Column::Detail);
    let (number, interface) = match detail.split_once(" on ") {
        Some((number, interface)) => (number, Some(interface)),
        None => (detail, None),
    };
    let number = number.parse();
    let number = number.map_err(|_| format!("detail {detail:?} of a card: expected its number"))?;
    let interface = interface.map(|name| escape::unescaped(name).collect::<String>());
    cards.apply(number, interface.as_deref()).map(|()| None)
}

fn entry(kind: &str, fields: &Fields<'_>) -> Result<Entry, String> {
    let detail = fields.get(Column::Detail);
    let unclear = |expected: &str| unclear(kind, detail, expected);
    Ok(match kind {
        "gap" => Entry::Gap(detail::gap(detail).ok_or_else(|| unclear("a gap's text"))?),
        "restart" => Entry::Restart,
        "ddr_clock" => {
            let ddr_clock = detail::ddr_clock(detail);
            Entry::DdrClock(ddr_clock.ok_or_else(|| unclear("the DDR clock's text"))?)
        }
        "no_end" => Entry::NoEnd,
        _ => Entry::Event(event(kind, fields)?),
    })
}

fn event(kind: &str, fields: &Fields<'_>) -> Result<Event, String> {
    let detail = fields.get(Column::Detail);
    let clock = || fields.number(Column::Clock).map(Cycles);
    let unclear = |expected: &str| unclear(kind, detail, expected);
    Ok(match kind {
        "access" => Event::Access(Access {
            clock: clock()?,
            direction: direction(fields)?,
            address: address(fields)?,
        }),
        "tag" => {
            let offset = detail::hexadecimal(detail).ok_or_else(|| unclear("its offset"))?;
            Event::Tag { clock: clock()?, direction: direction(fields)?, offset, address: None }
        }
        "mark" => {
            let register = detail.split(' ').next().unwrap_or_default();
            let register = detail::hexadecimal(register);
            let register = register.ok_or_else(|| unclear("its register and name"))?;
            Event::Mark { clock: clock()?, register: MarkRegister(register) }
        }
        "fault" => {
            let parts = detail.split_once(" bank ");
            let parts = parts
                .and_then(|(name, bank)| Some((FaultKind::from_name(name)?, bank.parse().ok()?)));
            let (kind, bank) = parts.ok_or_else(|| unclear("NAME bank NUMBER"))?;
            Event::Fault { clock: clock()?, kind, bank }
        }
        "page" => Event::Page {
            clock: clock()?,
            address: address(fields)?,
            reads: fields.number(Column::Reads)?,
            writes: fields.number(Column::Writes)?,
            duration: fields.number(Column::Duration)?,
        },
        "slice" => slice(clock()?, fields)?,
        "interval" => {
            let part = detail.strip_prefix("part ").and_then(|part| part.parse().ok());
            Event::Interval { clock: clock()?, part: part.ok_or_else(|| unclear("part NUMBER"))? }
        }
        "count" => {
            let parts = detail::count(detail);
            let (dump, group, index, value) =
                parts.ok_or_else(|| unclear("dump NUMBER GROUP INDEX: VALUE"))?;
            Event::Count { dump, group, index, value }
        }
        "hot_page" => {
            let parts = detail::hot_page(detail);
            let (dump, count, votes) =
                parts.ok_or_else(|| unclear("dump NUMBER count COUNT votes VOTES"))?;
            Event::HotPage { dump, address: address(fields)?, count, votes }
        }
        _ => return Err(format!("no row is of kind {kind:?}")),
    })
}

/// The problem that a detail has another form than expected.
fn unclear(kind: &str, detail: &str, expected: &str) -> String {
    format!("detail {detail:?} of a {kind}: expected {expected}")
}

fn slice(clock: Cycles, fields: &Fields<'_>) -> Result<Event, String> {
    let clocks = match fields.get(Column::Duration) {
        "" => None,
        _ => Some(Cycles(fields.number(Column::Duration)?)),
    };
    let partial = match fields.get(Column::Detail) {
        "" => false,
        "partial" => true,
        other => return Err(format!("detail {other:?} of a slice: expected partial, or nothing")),
    };
    let (reads, writes) = (fields.number(Column::Reads)?, fields.number(Column::Writes)?);
    let length = SliceLength::new(clocks, partial);
    Ok(Event::Slice { clock, code: None, length, reads, writes })
}

fn direction(fields: &Fields<'_>) -> Result<Direction, String> {
    match fields.get(Column::Direction) {
        "R" | "r" => Ok(Direction::Read),
        "W" | "w" => Ok(Direction::Write),
        other => Err(format!("direction {other:?} is neither R nor W")),
    }
}

fn address(fields: &Fields<'_>) -> Result<PhysAddr, String> {
    let text = fields.get(Column::Address);
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    PhysAddr::from_hex(digits).ok_or_else(|| format!("address {text:?} is not hexadecimal"))
}
