//! Distributes the time of threads over the numbers that they have written.
//!
//! Each chunk states the time in which it was filled. That time is distributed over some of its
//! numbers, in proportion to the instructions that they stand for. The chunk is divided into equal
//! parts, and one number is chosen at random from each part. With fixed places, a loop whose length
//! divides the length of a part would always show the same number. A chunk has about 260,000
//! numbers; sampling it costs about as much time as reading a few hundred numbers.
//!
//! So all instructions of a chunk count as equally fast. If the numbers of some code fill whole
//! chunks, the time of this code is exact.

use super::super::code::Numbered;
use super::super::table::Table;
use super::Tally;

/// Maximum count of numbers of a chunk that are sampled.
const SAMPLES: usize = 64;

/// Times of numbers.
#[derive(Clone, Debug)]
pub struct Times {
    /// For each number, the instructions that it stands for, and its ticks. Index 0 belongs to no
    /// block.
    numbers: Vec<(u64, u64)>,
    /// Sum of the ticks of all chunks.
    pub total: u64,
    /// State of the generator of random numbers, never 0.
    random: u64,
}

impl Default for Times {
    fn default() -> Self {
        Times { numbers: vec![(0, 0)], total: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Times {
    /// Adds the highest number that the table knows.
    pub fn add_number(&mut self, table: &Table) {
        let block_instructions =
            |number: u32| table.block(number).map_or(0, |block| block.instructions);
        let instructions = match table.numbered(table.known()) {
            Some(Numbered::Block(block)) => block.instructions,
            Some(Numbered::Path { blocks, length }) => {
                blocks[..*length].iter().map(|number| block_instructions(*number)).sum()
            }
            None => 0,
        };
        self.numbers.push((instructions, 0));
    }

    /// Ticks of a number so far.
    pub fn of(&self, number: u32) -> u64 {
        self.numbers.get(number as usize).map_or(0, |(_, ticks)| *ticks)
    }

    /// A random number below `limit` (Marsaglia, *Xorshift RNGs*; Lemire, *Fast Random Integer
    /// Generation in an Interval*).
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(limit)) >> 64) as u64
    }

    /// Distributes ticks over sampled numbers.
    fn distribute(&mut self, ticks: u64, samples: &[u32]) {
        self.total = self.total.saturating_add(ticks);
        let instructions = |number: &u32| self.numbers.get(*number as usize).map(|(one, _)| *one);
        let whole: u64 = samples.iter().filter_map(instructions).sum();
        for number in samples {
            let Some((instructions, sum)) = self.numbers.get_mut(*number as usize) else {
                continue;
            };
            let share = u128::from(ticks) * u128::from(*instructions);
            *sum = sum.saturating_add(share.checked_div(whole.into()).unwrap_or(0) as u64);
        }
    }
}

impl Tally {
    /// Distributes the ticks in which a chunk was filled over its numbers. `count`: how many
    /// numbers it has; `number_at`: reads the number at an index.
    pub fn add_time(&mut self, ticks: u64, count: u64, number_at: impl Fn(u64) -> u32) {
        let parts = count.min(SAMPLES as u64);
        let mut samples = [0; SAMPLES];
        for part in 0..parts {
            let (start, end) = (count * part / parts, count * (part + 1) / parts);
            samples[part as usize] = number_at(start + self.times.below(end - start));
        }
        self.times.distribute(ticks, &samples[..parts as usize]);
    }
}

#[cfg(test)]
mod tests {
    use hmtt_probe::address::RunAddr;

    use super::super::super::code::{BlockCode, End};
    use super::super::Recording;
    use super::*;

    /// Blocks of one, two and three instructions, and a superblock of the first two: its part and
    /// the whole.
    fn numbered(known: u32) -> Vec<Numbered> {
        let block = |instructions: u64| {
            let start = RunAddr(0x1000 * instructions);
            let (next, end) = (start + 1, End::Return);
            Numbered::Block(BlockCode { start, next, last: start, instructions, end })
        };
        let path = |length| Numbered::Path { blocks: [1, 2].into(), length };
        let entries = [block(1), block(2), block(3), path(1), path(2)];
        entries[known as usize..].to_vec()
    }

    fn tally() -> Tally {
        let mut tally = Tally::new(Recording::default());
        tally.learn(&numbered);
        tally
    }

    fn ticks(tally: &Tally) -> [u64; 6] {
        [0, 1, 2, 3, 4, 5].map(|number| tally.times.of(number))
    }

    #[test]
    fn time_is_distributed_in_proportion_to_instructions() {
        let mut tally = tally();
        let numbers = [1, 3, 5, u32::MAX, 6, 0, 3];
        tally.add_time(1000, numbers.len() as u64, |place| numbers[place as usize]);
        assert_eq!(ticks(&tally), [0, 100, 0, 600, 0, 300]);
        tally.add_time(50, 1, |_| 4);
        assert_eq!((ticks(&tally)[4], tally.times.total), (50, 1050));
    }

    #[test]
    fn time_of_no_block_is_in_the_sum_only() {
        let mut tally = tally();
        tally.add_time(7, 2, |_| u32::MAX);
        tally.add_time(u64::MAX, 0, |_| 1);
        assert_eq!((ticks(&tally), tally.times.total), ([0; 6], u64::MAX));
    }

    #[test]
    fn samples_of_a_long_chunk_are_fair() {
        let mut tally = tally();
        // A quarter of the numbers stands for three times as many instructions, with a period that
        // divides all parts.
        let number_at = |place: u64| if place.is_multiple_of(4) { 3 } else { 1 };
        for _ in 0..1000 {
            tally.add_time(1000, 1 << 18, number_at);
        }
        let [_, ones, _, threes, ..] = ticks(&tally);
        assert!(ones + threes <= tally.times.total && tally.times.total == 1_000_000);
        assert!(ones.abs_diff(threes) < 20_000, "{ones}, {threes}");
    }
}
