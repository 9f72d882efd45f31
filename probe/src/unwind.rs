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

use encoder::Encoder;
pub use symbol_file::{SymbolFile, frames};

/// Bytes that a node of the list of tables has before its `.eh_frame_hdr` ([`crate::stubs::lookup`]).
pub const NODE_BYTES: usize = 64;
/// Rows of one FDE at most. An unwinder finds the FDE by a binary search, and then reads its rows in turn.
const ROWS_PER_FDE: usize = 64;

/// Which original instruction a stub's instruction stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The one at this address.
    At(u64),
    /// The first instruction of the row is a copy of the one at this address, and the others lie at the same
    /// distance from theirs.
    Copy(u64),
    /// The one to which `r11` leads, as [`crate::stubs`]' shared code has it. So many of its registers are on the stack.
    Shared(u8),
}

/// What holds from one address of a stub up to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first instruction.
    pub at: u64,
    /// The original instruction.
    pub origin: Origin,
    /// Bytes by which the stack pointer is lower than the original instruction would find it.
    pub lowered: u32,
}

impl Row {
    /// Whether a row says the same as this one would if it went on up to there.
    pub(crate) fn goes_on(&self, next: &Row) -> bool {
        let distance = |row: &Row| match row.origin {
            Origin::Copy(old) => Some(old.wrapping_sub(row.at)),
            _ => None,
        };
        let same = match (distance(self), distance(next)) {
            (None, None) => self.origin == next.origin,
            (one, other) => one == other,
        };
        same && self.lowered == next.lowered
    }
}

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
