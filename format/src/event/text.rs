//! Prints events as lines for people.

use core::fmt;

use super::Event;

impl fmt::Display for Event {
    /// Prints one line. An access is printed as in a truth file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Access(access) => access.fmt(f),
            Event::Tag { clock, direction, offset, .. } => {
                write!(f, "{clock} tag {} {offset:x}", direction.letter())
            }
            Event::Mark { clock, register } => write!(f, "{clock} mark {register:x}"),
            Event::Fault { clock, kind, bank } => write!(f, "{clock} {kind} bank {bank}"),
            Event::Page { clock, address, reads, writes, duration } => {
                write!(f, "{clock} page {address} {reads} R {writes} W in {duration} clocks")
            }
            Event::Slice { clock, length, reads, writes, .. } => {
                write!(f, "{clock} slice {reads} R {writes} W")?;
                match length.clocks().filter(|_| length.is_partial()) {
                    Some(length) => write!(f, ", cut to {length} clocks"),
                    None => Ok(()),
                }
            }
            Event::Interval { clock, part } => write!(f, "{clock} interval of part {part}"),
            Event::Count { dump, group, index, value } => {
                write!(f, "dump {dump} {} {index}: {value}", group.name())
            }
            Event::HotPage { dump, address, count, votes } => {
                write!(f, "dump {dump} hot page {address} {count} of {votes}")
            }
        }
    }
}
