//! Encodes the line of a command, or of an access, in a recording.

use crate::command::{ALL_RANKS, Pins};
use crate::memory::MemoryDescription;

/// Longest line: a clock of 20 digits, eight single digits or bytes, address pins, blanks.
const MOST_BYTES: usize = 64;

/// The text of one line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    text: [u8; MOST_BYTES],
    length: usize,
}

impl Line {
    /// The line of the pin levels at a clock, in the columns that a header of
    /// [`HeaderText`](super::HeaderText) names.
    pub fn of_command(memory: &MemoryDescription, clock: u64, pins: &Pins) -> Self {
        let mut line = Line::new();
        line.push_decimal(clock);
        let ranks = ALL_RANKS >> (ALL_RANKS.count_ones() - u32::from(memory.ranks()));
        let mut field = |value: u32| {
            line.push(b' ');
            line.push_hexadecimal(value.into());
        };
        field((pins.cke & ranks).into());
        field((pins.cs_n & ranks).into());
        let act = memory.generation.has_act_n();
        if act {
            field(pins.act_n.into());
        }
        for level in [pins.ras_n, pins.cas_n, pins.we_n] {
            field(level.into());
        }
        field(pins.ba.into());
        // During ACTIVATE of DDR4, A14 to A16 are the strobes.
        field(if act && !pins.act_n { pins.a & 0x2_3fff } else { pins.a });
        line.push(b'\n');
        line
    }

    /// The line of an access in the truth file of a recording.
    pub fn of_access(access: &crate::Access) -> Self {
        let mut line = Line::new();
        line.push_decimal(access.clock.0);
        line.push(b' ');
        line.push(access.direction.letter() as u8);
        line.push(b' ');
        line.push_hexadecimal(access.address.0);
        line.push(b'\n');
        line
    }

    /// The bytes of the line, with its line end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    const fn new() -> Self {
        Line { text: [0; MOST_BYTES], length: 0 }
    }

    fn push(&mut self, byte: u8) {
        self.text[self.length] = byte;
        self.length += 1;
    }

    /// Appends a number in decimal.
    fn push_decimal(&mut self, number: u64) {
        self.push_digits(number, 10);
    }

    /// Appends a number in lower-case hexadecimal.
    fn push_hexadecimal(&mut self, number: u64) {
        self.push_digits(number, 16);
    }

    fn push_digits(&mut self, mut number: u64, base: u64) {
        let start = self.length;
        loop {
            self.push(b"0123456789abcdef"[(number % base) as usize]);
            number /= base;
            if number == 0 {
                break;
            }
        }
        self.text[start..self.length].reverse();
    }
}
