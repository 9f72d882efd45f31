//! Rows to comma-separated values (RFC 4180) as `hmtt decode --format csv` prints them, and back.
//!
//! A tag-window access is two lines, `tag` and, once the window's base is known, `access`; reading
//! makes them one row again. Of two kinds the text says less than the row: the counter of the first
//! frame of a gap, and what a loss of the DDR clock is beyond microseconds and one loss.

mod detail;
mod fields;
mod reader;

use std::fmt::Display;
use std::io::Write;

use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::report::context::mark_name;
use crate::report::digits::AccessLine;
use crate::report::gap::Placed;
pub use reader::CsvReader;

const HEADING: &str = "kind,clock,direction,address,reads,writes,duration,detail";

const ACCESS: AccessLine = AccessLine {
    before_clock: "access,",
    before_direction: ",",
    before_address: ",",
    end: ",,,,\n",
};
const ACCESS_OF_CAPTURE: AccessLine = AccessLine { end: ",,,,", ..ACCESS };

/// Writes CSV.
pub struct Csv<W> {
    output: W,
    captures: bool,
    untold: u64,
}

impl<W: Write> Csv<W> {
    /// Starts a file, with a last column `capture` if asked for.
    pub fn new(mut output: W, captures: bool) -> Result<Self, TableError> {
        writeln!(output, "{HEADING}{}", if captures { ",capture" } else { "" })?;
        Ok(Csv { output, captures, untold: 0 })
    }

    fn line(&mut self, capture: u32, line: impl Display) -> Result<(), TableError> {
        write!(self.output, "{line}")?;
        Ok(self.end(capture)?)
    }

    fn end(&mut self, capture: u32) -> std::io::Result<()> {
        if self.captures {
            return writeln!(self.output, ",{capture}");
        }
        self.untold += u64::from(capture != 0);
        writeln!(self.output)
    }

    fn access(&mut self, capture: u32, access: hmtt_format::Access) -> Result<(), TableError> {
        if capture == 0 && !self.captures {
            return Ok(ACCESS.write(access, &mut self.output)?);
        }
        ACCESS_OF_CAPTURE.write(access, &mut self.output)?;
        Ok(self.end(capture)?)
    }
}

impl<W: Write> Writer for Csv<W> {
    fn row(&mut self, &Row { capture, entry }: &Row) -> Result<(), TableError> {
        match entry {
            Entry::Access(access) => self.access(capture, access),
            Entry::Tag { clock, direction, offset, .. } => {
                let letter = direction.letter();
                self.line(capture, format_args!("tag,{clock},{letter},,,,,{offset:x}"))?;
                entry.access().map_or(Ok(()), |access| self.access(capture, access))
            }
            Entry::Mark { clock, register } => {
                let name = mark_name(register);
                self.line(capture, format_args!("mark,{clock},,,,,,{register:x} {name}"))
            }
            Entry::Fault { clock, kind, bank } => {
                self.line(capture, format_args!("fault,{clock},,,,,,{kind} bank {bank}"))
            }
            Entry::Page { clock, address, reads, writes, duration } => self.line(
                capture,
                format_args!("page,{clock},,{address},{reads},{writes},{duration},"),
            ),
            Entry::Slice { clock, length, partial, reads, writes } => {
                let length = length.map_or_else(String::new, |length| length.to_string());
                let detail = if partial { "partial" } else { "" };
                self.line(
                    capture,
                    format_args!("slice,{clock},,,{reads},{writes},{length},{detail}"),
                )
            }
            Entry::Interval { clock, part } => {
                self.line(capture, format_args!("interval,{clock},,,,,,part {part}"))
            }
            Entry::Count { dump, group, index, value } => {
                let group = group.name();
                self.line(capture, format_args!("count,,,,,,,dump {dump} {group} {index}: {value}"))
            }
            Entry::HotPage { dump, address, count, votes } => self.line(
                capture,
                format_args!("hot_page,,,{address},,,,dump {dump} count {count} votes {votes}"),
            ),
            Entry::Gap(gap) => {
                let clock = gap.before.or(gap.after).unwrap_or_default();
                let gap = Placed(&gap);
                self.line(capture, format_args!("gap,{clock},,,,,,\"{gap}\""))
            }
            Entry::Restart => self.line(capture, "restart,,,,,,,"),
            Entry::DdrClock(ddr_clock) => {
                self.line(capture, format_args!("ddr_clock,,,,,,,{ddr_clock}"))
            }
            Entry::NoEnd => self.line(capture, "no_end,,,,,,,"),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        Ok(LeftOut(vec![("rows' links or cards", self.untold)]))
    }
}
