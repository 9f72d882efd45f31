//! Describes calls with a direct target.

use super::JUMP_BYTES;

/// A call with a direct target: `call rel32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Address behind the call. The last four bytes of the call are the distance from this address
    /// to the target.
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
