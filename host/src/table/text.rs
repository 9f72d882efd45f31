//! Rows to lines of text: one line for each access, as truth files have them, and everything else as
//! comments. There is no way back: comments are for people.
//!
//! Page runs (`clock P address reads writes duration`) and time slices (`clock F length reads
//! writes`) are lines of their own, because in their modes they are the trace.

use std::io::Write;

use hmtt_format::block::hot_page_at_most;
use hmtt_format::record::ALL_PARTS;

use super::context::mark_name;
use super::digits::AccessLine;
use super::turns::{Turn, Turns};
use super::{Accesses, Entry, Items, LeftOut, Row, TableError, Writer};
use crate::decode::Item;

/// First line of truth files.
const HEADING: &str = "# clock R|W physical_byte_address_hex";

/// As `Access`'s `Display`.
pub(super) const ACCESS: AccessLine =
    AccessLine { before_clock: "", before_direction: " ", before_address: " ", end: "\n" };

/// Writes text.
pub struct Text<W> {
    output: W,
    turns: Turns,
}

/// The text of a whole trace, for tests and short captures.
pub fn text_of(items: &[Item]) -> String {
    let mut output = Vec::new();
    // Writing to memory does not fail.
    if let Ok(text) = Text::new(&mut output) {
        let mut rows = Items::new(Box::new(text));
        items.iter().for_each(|item| drop(rows.item(0, item)));
        drop(rows.finish());
    }
    String::from_utf8_lossy(&output).into_owned()
}

impl<W: Write> Text<W> {
    /// Starts a file.
    pub fn new(mut output: W) -> Result<Self, TableError> {
        writeln!(output, "{HEADING}")?;
        Ok(Text { output, turns: Turns::default() })
    }

    fn turn(&mut self, card: u32) -> Result<(), TableError> {
        match self.turns.turn(card) {
            None => {}
            Some(Turn { number, interface: Some(interface) }) => {
                writeln!(self.output, "# card {number} on {interface}")?;
            }
            Some(Turn { number, interface: None }) => writeln!(self.output, "# card {number}")?,
        }
        Ok(())
    }
}

impl<W: Write> Writer for Text<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        self.turn(row.capture)?;
        let output = &mut self.output;
        match row.entry {
            Entry::Access(access) => ACCESS.write(access, output)?,
            Entry::Tag { clock, direction, offset, .. } => {
                writeln!(output, "# tag {clock} {} {offset:x}", direction.letter())?;
                if let Some(access) = row.entry.access() {
                    ACCESS.write(access, output)?;
                }
            }
            Entry::Mark { clock, register } => {
                writeln!(output, "# mark {clock} {register:x} {}", mark_name(register))?;
            }
            Entry::Fault { clock, kind, bank } => {
                writeln!(output, "# fault {clock} {kind} {bank}")?;
            }
            Entry::Page { clock, address, reads, writes, duration } => {
                writeln!(output, "{clock} P {address} {reads} {writes} {duration}")?;
            }
            Entry::Slice { clock, length, partial, reads, writes } => {
                let length = length.map_or_else(|| "?".into(), |length| length.to_string());
                let partial = if partial { " partial" } else { "" };
                writeln!(output, "{clock} F {length} {reads} {writes}{partial}")?;
            }
            Entry::Interval { clock, part: ALL_PARTS } => {
                writeln!(output, "# interval {clock} all")?;
            }
            Entry::Interval { clock, part } => writeln!(output, "# interval {clock} part {part}")?,
            Entry::Count { dump, group, index, value } => {
                writeln!(output, "# count {dump} {} {index} {value}", group.name())?;
            }
            Entry::HotPage { dump, address, count, votes } => {
                let most = hot_page_at_most(count, votes);
                writeln!(output, "# hot_page {dump} {address} {count} {most} of {votes}")?;
            }
            Entry::Gap(gap) => writeln!(output, "# {gap}")?,
            Entry::Restart => writeln!(output, "# card restarted")?,
            Entry::DdrClock(ddr_clock) => writeln!(output, "# {ddr_clock}")?,
            Entry::NoEnd => writeln!(output, "# no end frame: the tail may be missing")?,
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
