//! Calls as the instructions have them.

use super::JUMP_BYTES;

/// A call that says where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Address behind it: its last four bytes are the distance from there.
    pub next: u64,
    /// Where it leads.
    pub target: u64,
}

impl Call {
    /// Where its operation code is: prefixes come before.
    pub(super) fn start(&self) -> u64 {
        self.next - JUMP_BYTES as u64
    }
}
