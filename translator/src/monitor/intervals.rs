//! Counts executed blocks for intervals of instructions: the basic-block vectors that SimPoint
//! reads.
//!
//! The text has a line for each interval: `T`, then `:BLOCK:COUNT ` for each block that was
//! executed in it. `COUNT` is the number of instructions that were executed in the block. All
//! intervals have exactly the same length: if a block crosses a border, its first instructions
//! count in one interval and the others in the next. So interval `k` of length `N` consists of the
//! instructions from number `k*N` on, as `hmtt convert --skip` counts them. A repeated string
//! instruction counts as one instruction.
//!
//! Example: blocks 1 and 2 have 3 and 4 instructions, and the length is 5. The sequence 1, 2 gives
//! the line `T:1:3 :2:2 `, and the other two instructions of block 2 count in the next interval.

use std::fmt::Write as _;

/// Maximum number of bytes of all lines. Later intervals are only counted.
const MOST_BYTES: usize = 256 << 20;

/// The intervals of one thread.
#[derive(Clone, Debug)]
pub struct Intervals {
    length: u64,
    done: u64,
    /// Instructions executed in the current interval, by number of the block.
    counts: Vec<u64>,
    /// Numbers of the blocks that were executed in the current interval.
    used: Vec<u32>,
    /// The lines of all complete intervals.
    pub text: String,
    /// Number of intervals for which there was no space.
    pub dropped: u64,
}

impl Intervals {
    /// Creates an empty state for intervals of `length` instructions, at least 1.
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

    /// Adds an execution of a block with this number and number of instructions.
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

    /// Ends the current interval, if something was executed in it.
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
