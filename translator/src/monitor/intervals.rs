//! Counts blocks by intervals of instructions: the basic-block vectors that SimPoint reads.
//!
//! A line for each interval: `T`, then `:BLOCK:COUNT ` for each block that was executed in it,
//! where the count is that of the instructions in it. Each interval has its length exactly: a block
//! that crosses the border counts with its first instructions in the one, and with the others in
//! the next. So interval `k` of length `N` are the instructions from number `k*N` on, as `hmtt
//! convert --skip` counts them. A repeated string instruction is one instruction.

use std::fmt::Write as _;

/// Most bytes of all lines. Later intervals are counted only.
const MOST_BYTES: usize = 256 << 20;

/// The intervals of a thread.
#[derive(Clone, Debug)]
pub struct Intervals {
    length: u64,
    done: u64,
    /// Instructions by number of the block, in this interval.
    counts: Vec<u64>,
    /// Numbers of the blocks in this interval.
    used: Vec<u32>,
    /// The lines.
    pub text: String,
    /// Intervals for which there was no room.
    pub dropped: u64,
}

impl Intervals {
    /// Intervals of a length in instructions, at least 1.
    pub fn new(length: u64) -> Self {
        Intervals {
            length: length.max(1),
            done: 0,
            counts: Vec::new(),
            used: Vec::new(),
            text: String::new(),
            dropped: 0,
        }
    }

    /// A block with a number and this many instructions is executed.
    pub fn execute(&mut self, number: u32, instructions: u64) {
        let at = number as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        let mut left = instructions;
        while left > 0 {
            let fitting = left.min(self.length - self.done);
            if self.counts[at] == 0 {
                self.used.push(number);
            }
            self.counts[at] += fitting;
            self.done += fitting;
            left -= fitting;
            if self.done == self.length {
                self.done = 0;
                self.end();
            }
        }
    }

    /// Ends an interval, if something was executed in it.
    pub fn end(&mut self) {
        if self.used.is_empty() {
            return;
        }
        self.used.sort_unstable();
        let has_room = self.text.len() < MOST_BYTES;
        if has_room {
            self.text.push('T');
        }
        for number in self.used.drain(..) {
            let count = std::mem::take(&mut self.counts[number as usize]);
            if has_room {
                let _ = write!(self.text, ":{number}:{count} ");
            }
        }
        if has_room {
            self.text.push('\n');
        } else {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_instructions_of_each_block() {
        let mut intervals = Intervals::new(10);
        for (number, instructions) in [(7, 3), (2, 4), (7, 4), (2, 4), (2, 4), (1, 1)] {
            intervals.execute(number, instructions);
        }
        intervals.end();
        intervals.end();
        assert_eq!(intervals.text, "T:2:4 :7:6 \nT:1:1 :2:8 :7:1 \n");
        assert_eq!(intervals.dropped, 0);
    }
}
