//! Counts accesses, their bytes and their clocks.

use std::ops::{AddAssign, Sub};

/// Counts of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of READs.
    pub reads: u64,
    /// Number of WRITEs.
    pub writes: u64,
    /// Bytes of the lines or bursts accessed.
    pub bytes: u64,
    /// Clocks during which accesses were counted, including clocks without an access.
    pub clocks: u64,
}

impl Traffic {
    /// Number of READs and WRITEs.
    pub const fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.clocks += other.clocks;
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Traffic {
            reads: self.reads - other.reads,
            writes: self.writes - other.writes,
            bytes: self.bytes - other.bytes,
            clocks: self.clocks - other.clocks,
        }
    }
}
