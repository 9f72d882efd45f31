//! Prints the header of a recording, which [`HeaderParser`](super::HeaderParser) parses.
//!
//! The header has the memory's map, clock, bus and burst length. It has no place for limits of
//! distances that differ from JEDEC's, for a burst length that the mode register sets, or for other
//! parameters of the card: a replay with such parameters needs the memory description.

use core::fmt;

use super::{END, MAGIC};
use crate::MemoryDescription;
use crate::address_map::Axis;

/// Digits of the last clock, enough for 2^48. Shorter numbers are followed by blanks, which readers
/// ignore.
const CLOCK_DIGITS: usize = 15;
/// Key of the line with the last clock.
pub const LAST_CLOCK: &str = "last_clock=";

/// A header with its last line. Its length is the same for every last clock below 2^48.
#[derive(Clone, Copy, Debug)]
pub struct HeaderText<'a> {
    /// The memory of the recording.
    pub memory: &'a MemoryDescription,
    /// Policy by which the memory controller closes rows, as text.
    pub page_policy: &'a str,
    /// Last clock of the recording; the first clock is 0.
    pub last_clock: u64,
}

impl fmt::Display for HeaderText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.memory;
        let columns = if memory.generation.has_act_n() { "cs_n act_n" } else { "cs_n" };
        writeln!(f, "{MAGIC}\ngeneration={}", memory.generation.name())?;
        let (whole, part) = (memory.tck_ps / 1000, memory.tck_ps % 1000);
        writeln!(f, "speed=tCK {whole}.{part:03} ns")?;
        writeln!(f, "device_bytes={}", memory.capacity())?;
        writeln!(f, "bus_bytes={}", 1u32 << memory.bus_log2)?;
        writeln!(f, "chip_selects={}", memory.ranks())?;
        writeln!(f, "page_policy={}", self.page_policy)?;
        let count = |axis| 1u32 << memory.bits(axis);
        let [rows, banks, columns_of_row] = [Axis::Row, Axis::Bank, Axis::Column].map(count);
        writeln!(f, "rows={rows} banks={banks} columns={columns_of_row}")?;
        for axis in [Axis::Row, Axis::Bank, Axis::Column, Axis::Rank] {
            for bit in 0..memory.bits(axis) {
                write!(f, "map {}[{bit}]=", axis.name())?;
                write_sum(f, memory.map.mask(axis, bit))?;
            }
        }
        if memory.mirror_odd_ranks {
            writeln!(f, "mirror_odd_ranks=1")?;
        }
        writeln!(f, "burst_bytes={}", memory.burst_bytes())?;
        writeln!(f, "burst_length={}", memory.burst_length)?;
        writeln!(f, "unlisted_clocks=deselect")?;
        writeln!(f, "first_clock=0")?;
        writeln!(f, "{LAST_CLOCK}{:<CLOCK_DIGITS$}", self.last_clock)?;
        writeln!(f, "columns=clock cke {columns} ras_n cas_n we_n ba a")?;
        writeln!(f, "{END}")
    }
}

/// Prints the address bits of a coordinate bit, as `p15^p18`, and a line end.
fn write_sum(f: &mut fmt::Formatter<'_>, mask: u64) -> fmt::Result {
    let bits = (0..u64::BITS).filter(|bit| mask >> bit & 1 != 0);
    for (number, bit) in bits.enumerate() {
        write!(f, "{}p{bit}", if number == 0 { "" } else { "^" })?;
    }
    writeln!(f)
}
