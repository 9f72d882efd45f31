//! How much is recorded of the accesses of a block.

use std::num::NonZeroU64;

use thiserror::Error;

/// The size of a chunk in bytes: the granularity at which addresses are of interest, such as 64 for
/// cache lines and 4096 for pages.
pub type Chunk = NonZeroU64;

/// The share of a block's representatives that is traced (the paper's omega), from 1 % to 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Omega(u8);

/// A share that is not between 1 % and 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} % of the representatives cannot be traced: the share is 1 to 100 %")]
pub struct OutOfRange(pub u32);

impl Omega {
    /// All representatives.
    pub const ALL: Omega = Omega(100);

    /// The share of a number of percent.
    ///
    /// # Errors
    /// It is not between 1 and 100.
    pub fn from_percent(percent: u32) -> Result<Self, OutOfRange> {
        match u8::try_from(percent) {
            Ok(share @ 1..=100) => Ok(Omega(share)),
            _ => Err(OutOfRange(percent)),
        }
    }

    /// The number of percent.
    pub const fn percent(self) -> u32 {
        self.0 as u32
    }

    /// Number of representatives that are traced, of `all`: the share rounded down, which is 0 in
    /// small blocks.
    pub const fn capacity(self, all: usize) -> usize {
        all * self.0 as usize / 100
    }
}

/// How accesses are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Every access is traced.
    Every,
    /// Some representatives are traced, and every access whose address is a set.
    Representatives {
        /// How many of a block's representatives are traced.
        omega: Omega,
        /// The granularity at which addresses are of interest.
        chunk: Chunk,
    },
}

/// How much is recorded of the accesses of a block, as its function says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Nothing.
    Nothing,
    /// What is chosen of all blocks.
    #[default]
    Chosen,
    /// What this chooses instead.
    By(Selector),
}
