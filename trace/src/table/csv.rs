//! Writes and reads rows as comma-separated values (RFC 4180), the form of `hmtt decode --format
//! csv`.
//!
//! If a capture has several cards, a line `card` names the card of the rows that follow it. Rows
//! before the first such line are of card 1. An access to the tag window is a line `tag` and, once
//! the window's base is known, a line `access`. The reader joins the two into one row. Two kinds of
//! rows lose detail in this format. A gap loses the counter of its first frame. A loss of the DDR
//! clock keeps its time in whole microseconds, and is read as one loss, however often the clock was
//! lost.

mod detail;
mod fields;
mod reader;
mod records;

use std::fmt::{self, Display};
use std::io::Write;

use hmtt_format::event::Values;
use hmtt_format::{Direction, Event, PhysAddr, escape};

use super::access_line::AccessLine;
use super::card_changes::CardChange;
use super::notation::{Notation, NotationWriter};
use super::{Entry, TableError};
use crate::decode::LocatedGap;
use detail::Detail;
pub use reader::CsvReader;

/// The notation of rows as comma-separated values.
pub struct CsvNotation;

/// A writer of CSV: a heading, and then one or two lines for each row.
pub type CsvWriter<W> = NotationWriter<W, CsvNotation>;

impl Notation for CsvNotation {
    const HEADING: &'static str =
        "kind,clock,direction,address,reads,writes,duration_clocks,detail\n";
    const ACCESS: AccessLine = AccessLine {
        before_clock: "access,",
        before_direction: ",",
        before_address: ",0x",
        end: ",,,,\n",
    };

    fn card_change(change: &CardChange<'_>, output: &mut impl Write) -> Result<(), TableError> {
        let CardChange { number, interface } = change;
        match interface {
            // A quote in a quoted field is doubled.
            Some(name) => {
                let name = escape::name(name).to_string().replace('"', "\"\"");
                line(output, format_args!("card,,,,,,,\"{number} on {name}\""))
            }
            None => line(output, format_args!("card,,,,,,,{number}")),
        }
    }

    fn entry(entry: &Entry, output: &mut impl Write) -> Result<(), TableError> {
        match entry {
            Entry::Event(Event::Access(access)) => Ok(Self::ACCESS.write(*access, output)?),
            Entry::Event(event) => write_event(event, output),
            Entry::Gap(gap) => {
                let clock = entry.clock().unwrap_or_default();
                let gap = LocatedGap(gap);
                line(output, format_args!("gap,{clock},,,,,,\"{gap}\""))
            }
            Entry::Restart => line(output, "restart,,,,,,,"),
            Entry::DdrClock(ddr_clock) => line(output, format_args!("ddr_clock,,,,,,,{ddr_clock}")),
            Entry::NoEnd => line(output, "no_end,,,,,,,"),
        }
    }
}

/// Writes the line of an event. The access of a tag with a known address becomes a second line.
fn write_event(event: &Event, output: &mut impl Write) -> Result<(), TableError> {
    let Values { clock, direction, address, counts, duration } = event.values();
    let access = event.access();
    let address = address.filter(|_| access.is_none());
    let (reads, writes) = counts.unzip();
    writeln!(
        output,
        "{},{},{},{},{},{},{},{}",
        event.kind(),
        Field(clock),
        Field(direction.map(Direction::letter)),
        Field(address.map(Prefixed)),
        Field(reads),
        Field(writes),
        Field(duration),
        Detail(event)
    )?;
    match access {
        Some(access) => Ok(CsvNotation::ACCESS.write(access, output)?),
        None => Ok(()),
    }
}

/// A field. It is empty if the row lacks the value.
struct Field<T>(Option<T>);

impl<T: Display> Display for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => Ok(()),
        }
    }
}

/// An address with the prefix 0x. Without the prefix, other readers would take it for a decimal
/// number.
struct Prefixed(PhysAddr);

impl Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{}", self.0)
    }
}

fn line(output: &mut impl Write, line: impl Display) -> Result<(), TableError> {
    Ok(writeln!(output, "{line}")?)
}
