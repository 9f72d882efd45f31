//! Writes the header of a recording, which [`hmtt_format::header`] parses.
//!
//! The header has the memory's map, clock, bus and burst length. It has no place for limits of distances that differ
//! from JEDEC's, for a burst length that the mode register sets, or for other parameters of the card: a replay with those
//! needs the memory description.

use std::fmt::Write;

use hmtt_format::address_map::Axis;
use hmtt_format::header::{END, MAGIC};
use hmtt_format::{AddressMap, MemoryDescription};

use super::super::controller::PagePolicy;

/// Digits of the last clock, enough for 2^48. Shorter numbers are followed by blanks, which readers ignore.
const CLOCK_DIGITS: usize = 15;

/// Returns the header with its last line. Its length is the same for every last clock below 2^48.
pub fn text(memory: &MemoryDescription, policy: PagePolicy, last_clock: u64) -> String {
    let columns = if memory.generation.has_act_n() { "cs_n act_n" } else { "cs_n" };
    let mut text = format!("{MAGIC}\ngeneration={}\n", memory.generation.name());
    let (whole, part) = (memory.tck_ps / 1000, memory.tck_ps % 1000);
    let mut line = |arguments: std::fmt::Arguments| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{arguments}");
    };
    line(format_args!("speed=tCK {whole}.{part:03} ns"));
    line(format_args!("device_bytes={}", memory.capacity()));
    line(format_args!("bus_bytes={}", 1u32 << memory.bus_log2));
    line(format_args!("chip_selects={}", memory.ranks()));
    line(format_args!("page_policy={} page, precharge-all before refresh", policy.name()));
    let count = |axis| 1u32 << memory.bits(axis);
    let [rows, banks, columns_of_row] = [Axis::Row, Axis::Bank, Axis::Column].map(count);
    line(format_args!("rows={rows} banks={banks} columns={columns_of_row}"));
    for axis in [Axis::Row, Axis::Bank, Axis::Column, Axis::Rank] {
        for bit in 0..memory.bits(axis) {
            line(format_args!("map {}[{bit}]={}", axis.name(), sum(&memory.map, axis, bit)));
        }
    }
    if memory.mirror_odd_ranks {
        line(format_args!("mirror_odd_ranks=1"));
    }
    line(format_args!("burst_bytes={}", memory.burst_bytes()));
    line(format_args!("burst_length={}", memory.burst_length));
    line(format_args!("unlisted_clocks=deselect"));
    line(format_args!("first_clock=0"));
    line(format_args!("last_clock={last_clock:<CLOCK_DIGITS$}"));
    line(format_args!("columns=clock cke {columns} ras_n cas_n we_n ba a"));
    line(format_args!("{END}"));
    text
}

/// The address bits of a coordinate bit, as `p15^p18`.
fn sum(map: &AddressMap, axis: Axis, bit: u8) -> String {
    let mask = map.mask(axis, bit);
    let terms = (0..u64::BITS).filter(|bit| mask >> bit & 1 != 0).map(|bit| format!("p{bit}"));
    terms.collect::<Vec<_>>().join("^")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::memories;
    use hmtt_format::header::HeaderParser;
    use hmtt_format::record::CLOCK_MASK;

    #[test]
    fn a_header_describes_its_memory() {
        for description in memories::ALL {
            let memory = memories::parse(description);
            let written = text(&memory, PagePolicy::Open, 1234);
            assert_eq!(written.len(), text(&memory, PagePolicy::Open, CLOCK_MASK).len());
            let mut parser = HeaderParser::default();
            let lines = written.lines().take_while(|line| *line != END);
            lines.for_each(|line| parser.line(line).unwrap());
            let parsed = parser.finish().unwrap();
            assert_eq!((parsed.first_clock, parsed.last_clock), (0, 1234));
            assert_eq!(parsed.memory.map, memory.map);
            assert_eq!(parsed.memory.generation, memory.generation);
            assert_eq!(parsed.memory.burst_bytes(), memory.burst_bytes());
            assert_eq!(parsed.memory.tck_ps, memory.tck_ps);
            assert_eq!(parsed.memory.mirror_odd_ranks, memory.mirror_odd_ranks);
        }
    }
}
