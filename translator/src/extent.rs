//! Defines how many accesses of a block are recorded: all, none, or a share that represents the
//! others.

use std::num::NonZeroU64;

use thiserror::Error;

/// Size of a chunk of memory in bytes: the granularity at which addresses are of interest, such as
/// 64 for cache lines and 4096 for pages.
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
    /// The number is not between 1 and 100.
    pub fn from_percent(percent: u32) -> Result<Self, OutOfRange> {
        match u8::try_from(percent) {
            Ok(share @ 1..=100) => Ok(Omega(share)),
            _ => Err(OutOfRange(percent)),
        }
    }

    /// The share in percent, 1 to 100.
    pub const fn percent(self) -> u32 {
        self.0 as u32
    }

    /// Number of representatives that are traced if a block has `count`: the share rounded down.
    /// 50 % of 3 are 1; 10 % of 3 are 0.
    pub const fn capacity(self, count: usize) -> usize {
        count * self.0 as usize / 100
    }
}

/// How the accesses that are traced are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Every access is traced.
    Every,
    /// Some representatives are traced, and every access whose address no expression describes
    /// ([`Address::Set`](crate::selection::Address::Set)).
    Representatives {
        /// How many of a block's representatives are traced.
        omega: Omega,
        /// The granularity at which addresses are of interest.
        chunk: Chunk,
    },
}

/// How much of the accesses of a block is recorded. All blocks of a function have the same extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// No access is recorded.
    Nothing,
    /// As much as in all blocks without a setting of their own.
    #[default]
    Chosen,
    /// As much as this selector chooses.
    By(Selector),
}
