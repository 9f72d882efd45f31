//! Formats an access as a line of one of the text formats. A trace has tens of millions of accesses
//! for each second of a memory bus, so this does not use `fmt` and serde, which are several times
//! slower.

use std::io::{self, Write};

use hmtt_format::Access;

/// The texts around the three values of an access: clock, direction, address. The values have the
/// same order in every format.
pub struct AccessLine {
    pub before_clock: &'static str,
    pub before_direction: &'static str,
    pub before_address: &'static str,
    pub end: &'static str,
}

/// Size of the line buffer: the longest texts, 20 decimal digits, a letter and 16 hexadecimal
/// digits fit.
const MAX_LINE_BYTES: usize = 128;

impl AccessLine {
    /// Writes the line of one access.
    #[inline]
    pub fn write(&self, access: Access, output: &mut impl Write) -> io::Result<()> {
        let mut line = Line { bytes: [0; MAX_LINE_BYTES], start: MAX_LINE_BYTES };
        line.push(self.end);
        line.push_number::<16>(access.address.0);
        line.push(self.before_address);
        line.push_byte(access.direction.letter() as u8);
        line.push(self.before_direction);
        line.push_number::<10>(access.clock.0);
        line.push(self.before_clock);
        output.write_all(&line.bytes[line.start..])
    }
}

/// A line that is built from its end, because the lowest digit of a number is computed first.
struct Line {
    bytes: [u8; MAX_LINE_BYTES],
    start: usize,
}

impl Line {
    fn push(&mut self, text: &str) {
        let end = self.start;
        self.start -= text.len();
        self.bytes[self.start..end].copy_from_slice(text.as_bytes());
    }

    fn push_byte(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    fn push_number<const BASE: u64>(&mut self, mut number: u64) {
        loop {
            self.push_byte(b"0123456789abcdef"[(number % BASE) as usize]);
            number /= BASE;
            if number == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::notation::Notation;
    use crate::table::{csv, jsonl, text};
    use hmtt_format::{Cycles, Direction, PhysAddr};
    use proptest::prelude::*;

    fn line(format: &AccessLine, access: Access) -> String {
        let mut line = Vec::new();
        format.write(access, &mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    proptest! {
        #[test]
        fn lines_equal_those_of_fmt_and_serde(
            clock in prop_oneof![any::<u64>(), 0u64..2000, Just(u64::MAX)],
            address in prop_oneof![any::<u64>(), 0u64..2000, Just(u64::MAX)],
            write: bool,
        ) {
            let direction = Direction::from_bit(write);
            let access = Access { clock: Cycles(clock), direction, address: PhysAddr(address) };
            let letter = direction.letter();
            prop_assert_eq!(line(&text::TextNotation::ACCESS, access), format!("{access}\n"));
            prop_assert_eq!(
                line(&csv::CsvNotation::ACCESS, access),
                format!("access,{clock},{letter},{address:#x},,,,\n")
            );
            let json: serde_json::Value = serde_json::from_str(&line(&jsonl::JsonlNotation::ACCESS, access))?;
            prop_assert_eq!(json, serde_json::json!({
                "kind": "access",
                "clock": clock,
                "direction": letter,
                "address": format!("{address:#x}"),
            }));
        }
    }
}
