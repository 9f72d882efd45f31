//! Items to lines of text: one line for each access, as truth files have them, and everything else
//! as comments.
//!
//! Page runs (`clock P address reads writes duration`) and time slices (`clock F length reads
//! writes`) are lines of their own, because in their modes they are the trace.

use std::fmt;
use std::io::{self, Write};

use hmtt_format::Event;
use hmtt_format::block::hot_page_at_most;
use hmtt_format::record::{ALL_PARTS, TagSource};

use super::context::mark_name;
use super::digits::AccessLine;
use super::{Context, Format};
use crate::decode::{DdrClock, Item};

/// First line of truth files.
const HEADING: &str = "# clock R|W physical_byte_address_hex";

/// As `Access`'s `Display`.
pub(super) const ACCESS: AccessLine =
    AccessLine { before_clock: "", before_direction: " ", before_address: " ", end: "\n" };

/// The text of a whole trace, for tests and short captures.
pub fn text_of(items: &[Item]) -> String {
    let (mut format, mut output) = (Text::default(), Vec::new());
    // Writing to memory does not fail.
    let _ = format.start(&mut output);
    items.iter().for_each(|item| drop(format.item(item, &mut output)));
    String::from_utf8_lossy(&output).into_owned()
}

/// Writes text.
#[derive(Debug, Default)]
pub struct Text {
    context: Context,
}

impl Format for Text {
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
            Some(interface) => writeln!(output, "# card {number} on {interface}"),
            None => writeln!(output, "# card {number}"),
        }
    }

    fn item(&mut self, item: &Item, output: &mut dyn Write) -> io::Result<()> {
        self.context.observe(item);
        match item {
            Item::Event(event) => self.event(event, output),
            Item::Gap(gap) => writeln!(output, "# {gap}"),
            Item::Restart => writeln!(output, "# card restarted"),
            Item::DdrClock(ddr_clock) => writeln!(output, "# {ddr_clock}"),
            Item::NoEnd => writeln!(output, "# no end frame: the tail may be missing"),
            Item::Report { .. } | Item::Malformed { .. } => Ok(()),
        }
    }
}

impl Text {
    fn event(&self, event: &Event, output: &mut dyn Write) -> io::Result<()> {
        match *event {
            Event::Access(access) => ACCESS.write(access, output),
            Event::Tag { clock, source: TagSource::Mark, value } => {
                writeln!(output, "# mark {clock} {value:x} {}", mark_name(value))
            }
            Event::Tag { clock, source: source @ TagSource::Window(direction), value } => {
                writeln!(output, "# tag {clock} {} {value:x}", direction.letter())?;
                match self.context.tag_access(clock, source, value) {
                    Some(access) => writeln!(output, "{access}"),
                    None => Ok(()),
                }
            }
            Event::Fault { clock, kind, bank } => writeln!(output, "# fault {clock} {kind} {bank}"),
            Event::Page { clock, address, reads, writes, duration } => {
                writeln!(output, "{clock} P {address} {reads} {writes} {duration}")
            }
            Event::Slice { clock, code, partial, reads, writes } => {
                match self.context.slice_length(code, partial) {
                    Some(length) => write!(output, "{clock} F {length} {reads} {writes}")?,
                    None => write!(output, "{clock} F ? {reads} {writes}")?,
                }
                output.write_all(if partial.is_some() { b" partial\n" } else { b"\n" })
            }
            Event::Interval { clock, part: ALL_PARTS } => {
                writeln!(output, "# interval {clock} all")
            }
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
}

/// `DDR clock lost at 12.345 ms of the transmit clock (losses since power-on: 1)`
impl fmt::Display for DdrClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, lost, losses, transmit_nanos } = *self;
        let what = match (running, lost) {
            (false, _) => "lost",
            (true, 0) => "found again",
            (true, _) => "lost and found again",
        };
        let milliseconds = transmit_nanos as f64 / 1e6;
        write!(f, "DDR clock {what} at {milliseconds:.3} ms of the transmit clock")?;
        write!(f, " (losses since power-on: {losses})")
    }
}
