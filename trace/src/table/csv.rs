//! Writes and reads rows as comma-separated values (RFC 4180), the form of `hmtt decode --format csv`.
//!
//! Where a capture has several cards, a line `card` names the card of the rows that follow; rows before the
//! first such line are of card 1. A tag-window access is two lines, `tag` and, once the window's base is
//! known, `access`; the reader joins them into one row. Two kinds of rows lose detail in this format: a gap
//! loses the counter of its first frame, and a loss of the DDR clock keeps only microseconds and one loss.

mod detail;
mod fields;
mod reader;
mod records;

use std::fmt::Display;
use std::io::Write;

use hmtt_format::escape;

use super::access_line::AccessLine;
use super::card_changes::CardChange;
use super::context::mark_name;
use super::notation::{Notation, NotationWriter};
use super::{Entry, TableError};
use crate::decode::LocatedGap;
pub use reader::CsvReader;

/// The notation of rows as comma-separated values.
pub struct CsvNotation;

/// A writer of CSV.
pub type CsvWriter<W> = NotationWriter<W, CsvNotation>;

impl Notation for CsvNotation {
    const HEADING: &'static str =
        "kind,clock,direction,address,reads,writes,duration_clocks,detail\n";
    const ACCESS: AccessLine = AccessLine {
        before_clock: "access,",
        before_direction: ",",
        before_address: ",",
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
        match *entry {
            Entry::Access(access) => Ok(Self::ACCESS.write(access, output)?),
            Entry::Tag { clock, direction, offset, .. } => {
                let letter = direction.letter();
                line(output, format_args!("tag,{clock},{letter},,,,,{offset:x}"))?;
                match entry.access() {
                    Some(access) => Ok(Self::ACCESS.write(access, output)?),
                    None => Ok(()),
                }
            }
            Entry::Mark { clock, register } => {
                let name = mark_name(register);
                line(output, format_args!("mark,{clock},,,,,,{register:x} {name}"))
            }
            Entry::Fault { clock, kind, bank } => {
                line(output, format_args!("fault,{clock},,,,,,{kind} bank {bank}"))
            }
            Entry::Page { clock, address, reads, writes, duration } => {
                line(output, format_args!("page,{clock},,{address},{reads},{writes},{duration},"))
            }
            Entry::Slice { clock, length, partial, reads, writes } => {
                let length = length.map_or_else(String::new, |length| length.to_string());
                let detail = if partial { "partial" } else { "" };
                line(output, format_args!("slice,{clock},,,{reads},{writes},{length},{detail}"))
            }
            Entry::Interval { clock, part } => {
                line(output, format_args!("interval,{clock},,,,,,part {part}"))
            }
            Entry::Count { dump, group, index, value } => {
                let group = group.name();
                line(output, format_args!("count,,,,,,,dump {dump} {group} {index}: {value}"))
            }
            Entry::HotPage { dump, address, count, votes } => line(
                output,
                format_args!("hot_page,,,{address},,,,dump {dump} count {count} votes {votes}"),
            ),
            Entry::Gap(gap) => {
                let clock = gap.before.or(gap.after).unwrap_or_default();
                let gap = LocatedGap(&gap);
                line(output, format_args!("gap,{clock},,,,,,\"{gap}\""))
            }
            Entry::Restart => line(output, "restart,,,,,,,"),
            Entry::DdrClock(ddr_clock) => line(output, format_args!("ddr_clock,,,,,,,{ddr_clock}")),
            Entry::NoEnd => line(output, "no_end,,,,,,,"),
        }
    }
}

fn line(output: &mut impl Write, line: impl Display) -> Result<(), TableError> {
    Ok(writeln!(output, "{line}")?)
}
