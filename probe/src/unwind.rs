//! Encodes unwind tables for stubs: `.eh_frame` with an `.eh_frame_hdr`, from [`Row`]s.
//!
//! A stub has no frame of its own. Its tables say that it was "called" by the original instruction that it stands
//! for, at that instruction's own address and with the same registers:
//!
//! ```text
//! CFA = rsp + 8 + lowered     rsp = CFA - 8     return address = the original instruction
//! ```
//!
//! The unwinder's next step uses the unwind table, personality and call sites of the function itself, so nothing of
//! those is copied. Only the innermost frame, or one that a signal interrupted, can be in a stub, since nothing ever
//! returns into one. The CIE has augmentation `S`: the address that comes out is that of the instruction to be
//! executed next, not one behind a call.
//!
//! The CFA lies 8 bytes above the stack pointer because libgcc recognises a frame by its CFA, less 1 in a frame
//! that a signal interrupted: with `CFA = rsp`, the stub and the function it stands for would be one frame to it, and
//! its second phase aborts.
//!
//! Not described: values of `rax`, `rdx`, `r11` and flags that a tag has saved. No landing pad uses them.

mod encoder;
mod symbol_file;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::stubs::{Origin, Row};
use encoder::Encoder;
pub use symbol_file::{SymbolFile, frames};

/// Bytes that a node of the list of tables has before its `.eh_frame_hdr` ([`crate::stubs::lookup`]).
pub const NODE_BYTES: usize = 64;
/// Rows of one FDE at most. An unwinder finds the FDE by a binary search, and then reads its rows in turn.
const ROWS_PER_FDE: usize = 64;

/// Where a table lies, and what it describes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Address of the `.eh_frame_hdr`, which the table begins with.
    pub at: u64,
    /// Address behind the last row.
    pub end: u64,
    /// Added to all addresses of rows, and to `end`.
    pub bias: u64,
}

/// How many bytes a table has at most.
pub fn room(rows: &[Row]) -> usize {
    encoder::FIXED_BYTES
        + rows.len() * encoder::ROW_BYTES
        + rows.len().div_ceil(ROWS_PER_FDE) * encoder::FDE_BYTES
}

/// Encodes the table of rows, which are in ascending order. `None` if it lies too far from what it describes.
pub fn table(rows: &[Row], place: Place) -> Option<Vec<u8>> {
    let groups = rows.chunks(ROWS_PER_FDE);
    let mut encoder = Encoder::new(place.at, groups.len());
    for (number, group) in groups.enumerate() {
        let next = rows.get((number + 1) * ROWS_PER_FDE).map_or(place.end, |row| row.at);
        encoder.fde(group, next, place.bias)?;
    }
    encoder.finish()
}
