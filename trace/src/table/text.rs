//! Writes rows as lines of text. An access is a line in the format of truth files, and most other
//! rows are comments. This format cannot be read back, because comments have no fixed form.
//!
//! Page runs (`clock P address reads writes duration`) and time slices (`clock F length reads
//! writes`) are lines too, because in their modes they are the content of the trace.

use std::io::{self, Write};

use hmtt_format::event::hot_page_at_most;
use hmtt_format::record::ALL_PARTS;
use hmtt_format::{Event, escape};

use super::access_line::AccessLine;
use super::card_changes::CardChange;
use super::notation::{Notation, NotationWriter};
use super::{Entry, Items, TableError};
use crate::decode::Item;
use crate::identity::CardId;

/// The notation of rows as text.
pub struct TextNotation;

/// A writer of text, which no reader reads back.
pub type TextWriter<W> = NotationWriter<W, TextNotation>;

/// Formats a whole trace as text in memory, for tests and short captures.
pub fn text_of(items: &[Item]) -> String {
    let mut output = Vec::new();
    // Writing to memory cannot fail.
    if let Ok(text) = TextWriter::new(&mut output) {
        let mut rows = Items::new(Box::new(text));
        items.iter().for_each(|item| drop(rows.item(CardId(0), item)));
        drop(rows.finish());
    }
    String::from_utf8_lossy(&output).into_owned()
}

impl Notation for TextNotation {
    /// First line of truth files.
    const HEADING: &'static str = "# clock R|W physical_byte_address_hex\n";
    /// The same form as `Access`'s `Display`.
    const ACCESS: AccessLine =
        AccessLine { before_clock: "", before_direction: " ", before_address: " ", end: "\n" };

    fn card_change(change: &CardChange<'_>, output: &mut impl Write) -> Result<(), TableError> {
        let CardChange { number, interface } = change;
        match interface {
            Some(interface) => {
                writeln!(output, "# card {number} on {}", escape::name(interface))?;
            }
            None => writeln!(output, "# card {number}")?,
        }
        Ok(())
    }

    fn entry(entry: &Entry, output: &mut impl Write) -> Result<(), TableError> {
        match entry {
            Entry::Event(event) => Ok(write_event(event, output)?),
            Entry::Gap(gap) => Ok(writeln!(output, "# {gap}")?),
            Entry::Restart => Ok(writeln!(output, "# card restarted")?),
            Entry::DdrClock(ddr_clock) => Ok(writeln!(output, "# {ddr_clock}")?),
            Entry::NoEnd => Ok(writeln!(output, "# no end frame: the tail may be missing")?),
        }
    }
}

fn write_event(event: &Event, output: &mut impl Write) -> io::Result<()> {
    match *event {
        Event::Access(access) => TextNotation::ACCESS.write(access, output),
        Event::Tag { clock, direction, offset, .. } => {
            writeln!(output, "# tag {clock} {} {offset:x}", direction.letter())?;
            match event.access() {
                Some(access) => TextNotation::ACCESS.write(access, output),
                None => Ok(()),
            }
        }
        Event::Mark { clock, register } => {
            writeln!(output, "# mark {clock} {register:x} {register}")
        }
        Event::Fault { clock, kind, bank } => writeln!(output, "# fault {clock} {kind} {bank}"),
        Event::Page { clock, address, reads, writes, duration } => {
            writeln!(output, "{clock} P {address} {reads} {writes} {duration}")
        }
        Event::Slice { clock, length, reads, writes, .. } => {
            let clocks = length.clocks().map_or_else(|| "?".into(), |clocks| clocks.to_string());
            let partial = if length.is_partial() { " partial" } else { "" };
            writeln!(output, "{clock} F {clocks} {reads} {writes}{partial}")
        }
        Event::Interval { clock, part: ALL_PARTS } => writeln!(output, "# interval {clock} all"),
        Event::Interval { clock, part } => writeln!(output, "# interval {clock} part {part}"),
        Event::Count { dump, group, index, value } => {
            writeln!(output, "# count {dump} {} {index} {value}", group.name())
        }
        Event::HotPage { dump, address, count, votes } => {
            let most = hot_page_at_most(count, votes);
            writeln!(output, "# hot_page {dump} {address} {count} {most} of {votes}")
        }
    }
}
