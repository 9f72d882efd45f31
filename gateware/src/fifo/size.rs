//! Lists the sizes of the packet FIFO.

use std::fmt;

/// Size of the packet FIFO of a card that is emitted without a board, or simulated.
/// [`fmt::Display`] prints it in KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FifoSize {
    /// 8 KB: the largest size for which the block RAMs of the Alchitry Cu suffice.
    Kb8,
    /// 128 KB, as published for HMTT.
    #[default]
    Kb128,
}

impl FifoSize {
    /// All sizes, in ascending order.
    pub const ALL: [FifoSize; 2] = [FifoSize::Kb8, FifoSize::Kb128];

    /// Number of the FIFO's words, of 64 bits each.
    pub const fn words(self) -> u32 {
        match self {
            FifoSize::Kb8 => 1 << 10,
            FifoSize::Kb128 => 1 << 14,
        }
    }

    /// Returns the size with this number of KB, if there is one.
    pub fn from_kb(kb: u32) -> Option<FifoSize> {
        FifoSize::ALL.into_iter().find(|size| size.kb() == kb)
    }

    /// Size in KB.
    pub const fn kb(self) -> u32 {
        self.words() * 8 / 1024
    }
}

impl fmt::Display for FifoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kb().fmt(f)
    }
}
