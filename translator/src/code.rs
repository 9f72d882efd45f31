//! The source of original code, which a process or a test provides.

use hmtt_probe::address::RunAddr;

/// Code that may be translated.
pub trait CodeBytes {
    /// Reads bytes from an address on. Returns how many were read: fewer than wanted if what follows
    /// is not readable or not executable, or if it is code that may change and this is not, or the other way round.
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize;

    /// Whether code at an address may change without a system call of the process.
    fn may_change(&self, _at: RunAddr) -> bool {
        false
    }
}
