//! Provides original code to the cache, from a process or a test.

use std::ops::Range;

use hmtt_probe::address::RunAddr;

use crate::extent::Extent;

/// Code that may be translated.
pub trait CodeBytes {
    /// Reads bytes from an address on. Returns how many were read. The bytes end where code cannot
    /// be read or executed, and where code that may change without a system call meets code that
    /// may not.
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize;

    /// Whether code at an address may change without a system call of the process.
    fn may_change(&self, _at: RunAddr) -> bool {
        false
    }

    /// How much is recorded of the accesses of the block at an address, if any are.
    fn extent(&self, _at: RunAddr) -> Extent {
        Extent::Chosen
    }

    /// The first address in a range whose instruction runs natively because it belongs to a
    /// restartable sequence.
    fn sequence(&self, _range: &Range<RunAddr>) -> Option<RunAddr> {
        None
    }

    /// Blocks that the program is expected to execute soon after it gets to an address, in order
    /// and each at most once. They are translated together. Their addresses need not have code.
    fn expected(&self, _at: RunAddr) -> Vec<Expected> {
        Vec::new()
    }
}

/// A block that a program is expected to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Address of its first instruction.
    pub at: RunAddr,
    /// Whether direct transfers are expected to lead to it.
    pub direct: bool,
    /// Whether indirect transfers or returns are expected to lead to it.
    pub indirect: bool,
}
