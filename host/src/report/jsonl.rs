//! Items to JSON objects, one a line, each with its `kind`.

use std::io::{self, Write};

use hmtt_format::record::TagSource;
use hmtt_format::{Event, FaultKind, PhysAddr};
use serde::{Serialize, Serializer};

use super::context::mark_name;
use super::digits::AccessLine;
use super::{Context, Format};
use crate::decode::{DdrClock, Gap, Item};

pub(super) const ACCESS: AccessLine = AccessLine {
    before_clock: r#"{"kind":"access","clock":"#,
    before_direction: r#","direction":""#,
    before_address: r#"","address":""#,
    end: "\"}\n",
};

/// Writes JSON lines. Addresses are hexadecimal strings, because JSON numbers lose bits above 2^53.
#[derive(Debug, Default)]
pub struct Jsonl {
    context: Context,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    Tag {
        clock: u64,
        direction: char,
        offset: u32,
        #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
        address: Option<PhysAddr>,
    },
    Mark {
        clock: u64,
        register: u32,
        name: String,
    },
    Fault {
        clock: u64,
        #[serde(serialize_with = "fault_name")]
        fault: FaultKind,
        bank: u8,
    },
    Page {
        clock: u64,
        #[serde(serialize_with = "hex")]
        address: PhysAddr,
        reads: u32,
        writes: u32,
        duration: u32,
    },
    Slice {
        clock: u64,
        length: Option<u64>,
        partial: bool,
        reads: u32,
        writes: u32,
    },
    Interval {
        clock: u64,
        part: u8,
    },
    Count {
        dump: u8,
        group: &'static str,
        index: u16,
        value: u32,
    },
    HotPage {
        dump: u8,
        #[serde(serialize_with = "hex")]
        address: PhysAddr,
        count: u32,
        votes: u32,
    },
    /// The lines that follow are of this card; before the first such line they are of card 1.
    Card {
        card: usize,
        interface: Option<&'a str>,
    },
    Gap(&'a Gap),
    DdrClock(&'a DdrClock),
    Restart,
    NoEnd,
}

fn hex<S: Serializer>(address: &PhysAddr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(address)
}

fn optional_hex<S: Serializer>(
    address: &Option<PhysAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    address.map(|address| address.to_string()).serialize(serializer)
}

fn fault_name<S: Serializer>(kind: &FaultKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

impl Format for Jsonl {
    fn start(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn card(
        &mut self,
        number: usize,
        interface: Option<&str>,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        write_line(&Line::Card { card: number, interface }, output)
    }

    fn item(&mut self, item: &Item, output: &mut dyn Write) -> io::Result<()> {
        self.context.observe(item);
        match item {
            Item::Event(event) => self.event(event, output),
            Item::Gap(gap) => write_line(&Line::Gap(gap), output),
            Item::Restart => write_line(&Line::Restart, output),
            Item::DdrClock(ddr_clock) => write_line(&Line::DdrClock(ddr_clock), output),
            Item::NoEnd => write_line(&Line::NoEnd, output),
            Item::Report { .. } | Item::Malformed { .. } => Ok(()),
        }
    }
}

fn write_line(line: &Line<'_>, output: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line)?;
    output.write_all(b"\n")
}

impl Jsonl {
    fn event(&self, event: &Event, output: &mut dyn Write) -> io::Result<()> {
        let line = match *event {
            Event::Access(access) => return ACCESS.write(access, output),
            Event::Tag { clock, source: TagSource::Mark, value } => {
                Line::Mark { clock: clock.0, register: value, name: mark_name(value) }
            }
            Event::Tag { clock, source: source @ TagSource::Window(direction), value } => {
                let access = self.context.tag_access(clock, source, value);
                let address = access.map(|access| access.address);
                Line::Tag { clock: clock.0, direction: direction.letter(), offset: value, address }
            }
            Event::Fault { clock, kind, bank } => Line::Fault { clock: clock.0, fault: kind, bank },
            Event::Page { clock, address, reads, writes, duration } => {
                Line::Page { clock: clock.0, address, reads, writes, duration }
            }
            Event::Slice { clock, code, partial, reads, writes } => {
                let length = self.context.slice_length(code, partial).map(|length| length.0);
                let partial = partial.is_some();
                Line::Slice { clock: clock.0, length, partial, reads, writes }
            }
            Event::Interval { clock, part } => Line::Interval { clock: clock.0, part },
            Event::Count { dump, group, index, value } => {
                Line::Count { dump, group: group.name(), index, value }
            }
            Event::HotPage { dump, address, count, votes } => {
                Line::HotPage { dump, address, count, votes }
            }
        };
        write_line(&line, output)
    }
}
