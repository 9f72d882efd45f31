//! The source of original code, which a process or a test provides.

use std::ops::Range;

use hmtt_probe::address::RunAddr;

use crate::extent::Extent;

/// Code that may be translated.
pub trait CodeBytes {
    /// Reads bytes from an address on. Returns how many were read: fewer than wanted if what
    /// follows is not readable or not executable, or if it is code that may change and this is not,
    /// or the other way round.
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize;

    /// Whether code at an address may change without a system call of the process.
    fn may_change(&self, _at: RunAddr) -> bool {
        false
    }

    /// How much is recorded of the accesses of the block at an address, if any are.
    fn extent(&self, _at: RunAddr) -> Extent {
        Extent::Chosen
    }

    /// The first address in a range whose instruction runs natively because of restartable
    /// sequences.
    fn sequence(&self, _range: &Range<RunAddr>) -> Option<RunAddr> {
        None
    }

    /// Blocks that the program is expected to execute soon after it gets to an address, in order,
    /// each at most once. They are translated together, and need not exist.
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
    /// Whether indirect transfers or returns are.
    pub indirect: bool,
}
