//! The source of original code, which a process or a test provides.

use hmtt_probe::address::RunAddr;

/// Code that may be translated.
pub trait CodeBytes {
    /// Reads bytes from an address on. Returns how many were read: fewer than wanted if what follows
    /// is not readable, not executable, or writable by the program.
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize;
}
