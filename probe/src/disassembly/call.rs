//! Calls with a direct target.

use super::JUMP_BYTES;

/// A call with a direct target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Address after the call. Its last four bytes are the distance from there to the target.
    pub next: u64,
    /// Address of the called function.
    pub target: u64,
}

impl Call {
    /// Address of the operation code, which follows any prefixes.
    pub(super) fn start(&self) -> u64 {
        self.next - JUMP_BYTES as u64
    }
}
