//! Items to comma-separated rows (RFC 4180), one header line first.
//!
//! Where a capture has several cards, a row `card` says whose rows follow; before the first of them they
//! are card 1's. A tag-window access gives two rows, `tag` and, once the window's base is known, `access`.

use std::fmt::Display;
use std::io::{self, Write};

use hmtt_format::Event;
use hmtt_format::record::TagSource;

use super::context::mark_name;
use super::digits::AccessLine;
use super::gap::Place;
use super::{Context, Format};
use crate::decode::Item;

const HEADING: &str = "kind,clock,direction,address,reads,writes,duration,detail";

pub(super) const ACCESS: AccessLine = AccessLine {
    before_clock: "access,",
    before_direction: ",",
    before_address: ",",
    end: ",,,,\n",
};

/// Writes CSV.
#[derive(Debug, Default)]
pub struct Csv {
    context: Context,
}

impl Format for Csv {
    fn start(&mut self, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "{HEADING}")
    }

    fn card(
        &mut self,
        number: usize,
        interface: Option<&str>,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        match interface {
            // A quote in a quoted field is doubled.
            Some(name) => {
                let name = name.replace('"', "\"\"");
                writeln!(output, "card,,,,,,,\"{number} on {name}\"")
            }
            None => writeln!(output, "card,,,,,,,{number}"),
        }
    }

    fn item(&mut self, item: &Item, output: &mut dyn Write) -> io::Result<()> {
        self.context.observe(item);
        match item {
            Item::Event(event) => self.event(event, output),
            Item::Gap(gap) => {
                let clock = gap.before.or(gap.after).unwrap_or_default();
                let place = match Place(gap).to_string() {
                    place if place.is_empty() => place,
                    place => format!(", {place}"),
                };
                writeln!(output, "gap,{clock},,,,,,\"{gap}{place}\"")
            }
            Item::Restart => writeln!(output, "restart,,,,,,,"),
            Item::DdrClock(ddr_clock) => writeln!(output, "ddr_clock,,,,,,,{ddr_clock}"),
            Item::NoEnd => writeln!(output, "no_end,,,,,,,"),
            Item::Report { .. } | Item::Malformed { .. } => Ok(()),
        }
    }
}

impl Csv {
    fn event(&self, event: &Event, output: &mut dyn Write) -> io::Result<()> {
        match *event {
            Event::Access(access) => ACCESS.write(access, output),
            Event::Tag { clock, source: TagSource::Mark, value } => {
                writeln!(output, "mark,{clock},,,,,,{value:x} {}", mark_name(value))
            }
            Event::Tag { clock, source: source @ TagSource::Window(direction), value } => {
                writeln!(output, "tag,{clock},{},,,,,{value:x}", direction.letter())?;
                match self.context.tag_access(clock, source, value) {
                    Some(access) => ACCESS.write(access, output),
                    None => Ok(()),
                }
            }
            Event::Fault { clock, kind, bank } => {
                writeln!(output, "fault,{clock},,,,,,{kind} bank {bank}")
            }
            Event::Page { clock, address, reads, writes, duration } => {
                writeln!(output, "page,{clock},,{address},{reads},{writes},{duration},")
            }
            Event::Slice { clock, code, partial, reads, writes } => {
                let length = self.context.slice_length(code, partial);
                let length: &dyn Display = length.as_ref().map_or(&"", |length| length);
                let detail = if partial.is_some() { "partial" } else { "" };
                writeln!(output, "slice,{clock},,,{reads},{writes},{length},{detail}")
            }
            Event::Interval { clock, part } => {
                writeln!(output, "interval,{clock},,,,,,part {part}")
            }
            Event::Count { dump, group, index, value } => {
                writeln!(output, "count,,,,,,,dump {dump} {} {index}: {value}", group.name())
            }
            Event::HotPage { dump, address, count, votes } => {
                writeln!(output, "hot_page,,,{address},,,,dump {dump} count {count} votes {votes}")
            }
        }
    }
}
