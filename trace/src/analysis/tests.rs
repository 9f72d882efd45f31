//! Compares each analysis with a computation that knows nothing of it, on accesses of mixed
//! patterns.

mod distances;
mod pieces;
mod rows;
mod states;
mod streams;
mod sums;
mod time;
mod timeline;

use proptest::prelude::*;

use super::Batch;

/// The accesses of a test, in columns.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    pub addresses: Vec<u64>,
    pub writes: Vec<bool>,
    pub clocks: Vec<u64>,
    pub sizes: Vec<u32>,
    pub instructions: Vec<u64>,
}

impl Accesses {
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// The accesses of some rows, with all columns.
    pub fn batch(&self, rows: std::ops::Range<usize>) -> Batch<'_> {
        Batch::new(&self.addresses, &self.writes)
            .with_clocks(&self.clocks)
            .with_sizes(&self.sizes)
            .with_instructions(&self.instructions)
            .rows(rows)
    }

    /// All accesses, without sizes and instructions.
    pub fn plain(&self) -> Batch<'_> {
        Batch::new(&self.addresses, &self.writes).with_clocks(&self.clocks)
    }

    /// The lines or pages of 2^`log2` bytes that each access touches.
    pub fn units(&self, log2: u32) -> Vec<u64> {
        let ranges = self.addresses.iter().zip(&self.sizes);
        ranges
            .flat_map(|(address, size)| address >> log2..=(address + u64::from(*size) - 1) >> log2)
            .collect()
    }
}

/// Sequential, strided, hot and random accesses, in turns.
pub fn accesses(most: usize) -> impl Strategy<Value = Accesses> {
    let step = (0u8..6, 0u64..1 << 18, 0u64..40, any::<bool>(), 1u32..80, 0u64..5);
    prop::collection::vec(step, 0..most).prop_map(|steps| {
        let mut accesses = Accesses::default();
        let (mut clock, mut next) = (0, 0x1_0000);
        for (kind, random, delta, is_write, size, instruction) in steps {
            next = match kind {
                0 | 1 => next + 64,
                2 => next + 24,
                3 => 0x4000 + random % 512,
                4 => next,
                _ => random,
            };
            clock += delta;
            accesses.addresses.push(next);
            accesses.writes.push(is_write);
            accesses.clocks.push(clock);
            accesses.sizes.push(size);
            accesses.instructions.push(0x40_0000 + instruction * 4);
        }
        accesses
    })
}
