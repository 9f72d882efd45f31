//! Rows to lines of text as `hmtt decode --format text` prints them. There is no way back: comments
//! are for people.

use std::io::Write;

use hmtt_format::block::hot_page_at_most;
use hmtt_format::record::ALL_PARTS;

use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::report::context::mark_name;
use crate::report::digits::AccessLine;

const HEADING: &str = "# clock R|W physical_byte_address_hex";

const ACCESS: AccessLine =
    AccessLine { before_clock: "", before_direction: " ", before_address: " ", end: "\n" };

/// Writes text.
pub struct Text<W> {
    output: W,
}

impl<W: Write> Text<W> {
    /// Starts a file.
    pub fn new(mut output: W) -> Result<Self, TableError> {
        writeln!(output, "{HEADING}")?;
        Ok(Text { output })
    }
}

impl<W: Write> Writer for Text<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
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

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        Ok(LeftOut::default())
    }
}
