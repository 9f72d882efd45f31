//! Describes this machine, so that a reader recognises a map of another machine.

use std::fs;
use std::ops::Range;

use hmtt_files::page_map::{Clock, Machine};
use rustix::time::ClockId;

use super::{nanoseconds, now_ns};
use crate::stubs::layout::PAGE_BYTES;

/// Describes this machine. Properties that cannot be read are left out.
pub fn machine() -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Machine {
        clock: Clock::Monotonic,
        boot_id: boot_id(&text("/proc/sys/kernel/random/boot_id")),
        page_log2: PAGE_BYTES.trailing_zeros() as u8,
        start_ns: now_ns(),
        start_realtime_ns: nanoseconds(ClockId::Realtime),
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        memory: memory(&text("/proc/iomem")),
    }
}

/// The bytes of a UUID; all 0 if the text is no UUID.
fn boot_id(text: &str) -> [u8; 16] {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if digits.len() == 32 => number.to_be_bytes(),
        _ => [0; 16],
    }
}

/// Ranges of memory in `/proc/iomem`. Without a privilege all addresses in this file are 0.
fn memory(text: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let (range, name) = line.split_once(" : ")?;
        let (first, last) = range.split_once('-').filter(|_| name == "System RAM")?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (first, last) = (number(first)?, number(last)?);
        (first < last).then(|| first..last.saturating_add(1))
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_ranges_are_read() {
        let id = boot_id("49f64be4-bf10-4b3b-a450-e10b8c75d02a\n");
        assert_eq!((id[0], id[15]), (0x49, 0x2a));
        assert_eq!(boot_id("none"), [0; 16]);
        let text = "00001000-0009fbff : System RAM\n  0009f000-0009fbff : System RAM\n000f0000-000fffff : System ROM\n\
                    100000000-63fffffff : System RAM\n00000000-00000000 : System RAM\nnothing\n";
        assert_eq!(memory(text), [0x1000..0x9fc00, 0x1_0000_0000..0x6_4000_0000]);
    }
}
