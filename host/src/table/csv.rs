//! Rows to comma-separated values (RFC 4180) as `hmtt decode --format csv` prints them, and back.
//!
//! Where a capture has several cards, a line `card` says whose rows follow; before the first of them they
//! are card 1's. A tag-window access is two lines, `tag` and, once the window's base is known, `access`;
//! reading makes them one row again. Of two kinds the text says less than the row: the counter of the first
//! frame of a gap, and what a loss of the DDR clock is beyond microseconds and one loss.

mod detail;
mod fields;
mod reader;

use std::fmt::Display;
use std::io::Write;

use super::context::mark_name;
use super::digits::AccessLine;
use super::turns::{Turn, Turns};
use super::{Accesses, Entry, LeftOut, Row, TableError, Writer};
use crate::report::gap::Placed;
pub use reader::CsvReader;

const HEADING: &str = "kind,clock,direction,address,reads,writes,duration,detail";

pub(super) const ACCESS: AccessLine = AccessLine {
    before_clock: "access,",
    before_direction: ",",
    before_address: ",",
    end: ",,,,\n",
};

/// Writes CSV.
pub struct Csv<W> {
    output: W,
    turns: Turns,
}

impl<W: Write> Csv<W> {
    /// Starts a file.
    pub fn new(mut output: W) -> Result<Self, TableError> {
        writeln!(output, "{HEADING}")?;
        Ok(Csv { output, turns: Turns::default() })
    }

    fn line(&mut self, line: impl Display) -> Result<(), TableError> {
        Ok(writeln!(self.output, "{line}")?)
    }

    fn turn(&mut self, card: u32) -> Result<(), TableError> {
        match self.turns.turn(card) {
            None => {}
            Some(Turn { number, interface: Some(name) }) => {
                // A quote in a quoted field is doubled.
                let name = name.replace('"', "\"\"");
                writeln!(self.output, "card,,,,,,,\"{number} on {name}\"")?;
            }
            Some(Turn { number, interface: None }) => {
                writeln!(self.output, "card,,,,,,,{number}")?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Writer for Csv<W> {
    fn row(&mut self, &Row { capture, entry }: &Row) -> Result<(), TableError> {
        self.turn(capture)?;
        match entry {
            Entry::Access(access) => Ok(ACCESS.write(access, &mut self.output)?),
            Entry::Tag { clock, direction, offset, .. } => {
                let letter = direction.letter();
                self.line(format_args!("tag,{clock},{letter},,,,,{offset:x}"))?;
                match entry.access() {
                    Some(access) => Ok(ACCESS.write(access, &mut self.output)?),
                    None => Ok(()),
                }
            }
            Entry::Mark { clock, register } => {
                let name = mark_name(register);
                self.line(format_args!("mark,{clock},,,,,,{register:x} {name}"))
            }
            Entry::Fault { clock, kind, bank } => {
                self.line(format_args!("fault,{clock},,,,,,{kind} bank {bank}"))
            }
            Entry::Page { clock, address, reads, writes, duration } => {
                self.line(format_args!("page,{clock},,{address},{reads},{writes},{duration},"))
            }
            Entry::Slice { clock, length, partial, reads, writes } => {
                let length = length.map_or_else(String::new, |length| length.to_string());
                let detail = if partial { "partial" } else { "" };
                self.line(format_args!("slice,{clock},,,{reads},{writes},{length},{detail}"))
            }
            Entry::Interval { clock, part } => {
                self.line(format_args!("interval,{clock},,,,,,part {part}"))
            }
            Entry::Count { dump, group, index, value } => {
                let group = group.name();
                self.line(format_args!("count,,,,,,,dump {dump} {group} {index}: {value}"))
            }
            Entry::HotPage { dump, address, count, votes } => self.line(format_args!(
                "hot_page,,,{address},,,,dump {dump} count {count} votes {votes}"
            )),
            Entry::Gap(gap) => {
                let clock = gap.before.or(gap.after).unwrap_or_default();
                let gap = Placed(&gap);
                self.line(format_args!("gap,{clock},,,,,,\"{gap}\""))
            }
            Entry::Restart => self.line("restart,,,,,,,"),
            Entry::DdrClock(ddr_clock) => self.line(format_args!("ddr_clock,,,,,,,{ddr_clock}")),
            Entry::NoEnd => self.line("no_end,,,,,,,"),
        }
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
